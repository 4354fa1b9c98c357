"""What one network makes of many agents' samples, in batches that they share.

An agent with few samples leaves a batch short, and an accelerator idle. Here rows of one agent
after the other fill batches, which are computed when the first of their agents asks: one batch is
in memory at a time. Where rows are computed in other company their last bits may differ.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fleetledger.learning.training.resident import ResidentSamples, SampleArray

Rows = npt.NDArray[Any]
SENT = "sent"
"""The network that a round sends."""


@dataclass(frozen=True, eq=False)
class InferenceRequest:
    """What an agent asks of a network that others ask, too."""

    samples: SampleArray
    """(n, ...), n > 0, as they are handed in."""
    scores: Callable[[Tensor], Rows]
    """From some samples to what is made of each, in the host's memory."""
    at_once: int
    """Samples of a batch."""
    network: str = SENT
    """Which of the networks that the agents share."""


class SharedInferences:
    """The looks of agents at the networks that they share."""

    def __init__(self, requests: Mapping[str, Sequence[InferenceRequest]]) -> None:
        """Take what agents ask, by their names; each asks a network once at most."""
        asked: dict[str, dict[str, InferenceRequest]] = {}
        for agent, looks in requests.items():
            for look in looks:
                asked.setdefault(look.network, {})[agent] = look
        self._by_network = {name: SharedInference(looks) for name, looks in asked.items()}

    def of(self, agent: str, network: str = SENT) -> Iterator[Rows] | None:
        """Return what a network makes of an agent's samples; None for one that did not ask."""
        shared = self._by_network.get(network)
        return None if shared is None else shared.of(agent)


class SharedInference:
    """The looks of agents at one network, which take what is theirs in their order."""

    def __init__(self, looks: Mapping[str, InferenceRequest]) -> None:
        """Take looks that differ in their samples alone; at least one."""
        self._first = next(iter(looks.values()))
        self._names = deque((name, len(look.samples)) for name, look in looks.items())
        self._batches = _batches([look.samples for look in looks.values()], self._first.at_once)
        self._made: Rows | None = None
        """Rows of the present batch that nobody has taken yet."""

    def of(self, agent: str) -> Iterator[Rows] | None:
        """Return what is made of an agent's samples, in parts; None for one that did not ask.

        Who was before it and has not taken what it asked for gets nothing of it any more.
        """
        if all(name != agent for name, _ in self._names):
            return None
        name, count = self._names.popleft()
        while name != agent:
            deque(self._taken(count), maxlen=0)
            name, count = self._names.popleft()
        return self._taken(count)

    def _taken(self, count: int) -> Iterator[Rows]:
        while count:
            made = self._first.scores(next(self._batches)) if self._made is None else self._made
            part = made[:count]
            self._made = made[count:] if len(made) > count else None
            count -= len(part)
            yield part


def _batches(samples: Sequence[SampleArray], size: int) -> Iterator[Tensor]:
    """Yield samples of one agent after the other in full batches, on the device or on the host."""
    there = [one for one in samples if isinstance(one, ResidentSamples)]
    if len(there) == len(samples):
        yield from ResidentSamples.batches(there, size)
        return
    left = deque(np.asarray(one[:]) for one in samples)
    while left:
        parts: list[Rows] = []
        room = size
        while room and left:
            part, rest = np.split(left.popleft(), [room])
            parts.append(part)
            room -= len(part)
            if len(rest):
                left.appendleft(rest)
        yield torch.from_numpy(np.concatenate(parts))
