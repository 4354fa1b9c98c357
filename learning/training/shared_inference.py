"""What one network makes of many agents' samples, in batches that they share.

An agent with few samples leaves a batch short, and an accelerator idle. Here rows of one agent
after the other fill batches, which are computed when the first of their agents asks: one batch is
in memory at a time. Where rows are computed in other company their last bits may differ.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Rows = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class InferenceRequest:
    """What an agent asks of a network that others ask, too."""

    samples: Rows
    """(n, ...), n > 0, as they are handed in."""
    scores: Callable[[Tensor], Rows]
    """From some samples to what is made of each, in the host's memory."""
    at_once: int
    """Samples of a batch."""


class SharedInference:
    """The looks of agents at one network, which take what is theirs in their order."""

    def __init__(self, looks: Mapping[str, InferenceRequest]) -> None:
        """Take looks that differ in their samples alone; at least one."""
        self._first = next(iter(looks.values()))
        self._names = deque((name, len(look.samples)) for name, look in looks.items())
        self._samples = deque(look.samples for look in looks.values())
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
            made = self._next() if self._made is None else self._made
            part = made[:count]
            self._made = made[count:] if len(made) > count else None
            count -= len(part)
            yield part

    def _next(self) -> Rows:
        """Return what is made of the next batch."""
        parts: list[Rows] = []
        left = self._first.at_once
        while left and self._samples:
            part, rest = np.split(self._samples.popleft(), [left])
            parts.append(part)
            left -= len(part)
            if len(rest):
                self._samples.appendleft(rest)
        return self._first.scores(torch.from_numpy(np.concatenate(parts)))
