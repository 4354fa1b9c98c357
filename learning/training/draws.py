"""What chance decides in an epoch, drawn on the host and copied to the device in one piece.

The order of the samples, a word for each of them that its picture is shaken by, and the keys of
what is drawn on the device itself: those of dropouts by step and layer, those of losses by step.
Which layers there are is known once they have asked; what is asked for later than at the beginning
of an epoch is copied by itself, and from the next epoch on with the rest.

What a dropout keeps is drawn there for many steps at once, with the words that each of them would
draw: a dozen kernels in a while instead of in every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from learning.numerics.counter_generator import random_words, words_at
from learning.training.chance import (
    AUGMENTATION,
    DROPOUT,
    LANES,
    Chance,
    DropoutLayer,
    StepChance,
    mixed,
    spaced,
)

Words = npt.NDArray[np.uint64]
Asked = tuple[int, int | None]
"""A purpose, and a place in it: a layer, or the first row of a part."""

_WORDS_AT_ONCE = 1 << 19
"""Of a dropout: 4 MiB, and as much again for each of the few numbers that a word is mixed from."""


@dataclass(eq=False)
class Draws:
    """What the agents of a training draw, epoch by epoch, on `device`."""

    chances: Sequence[Chance]
    sizes: Sequence[int]
    """Samples of each agent, the largest first."""
    batch: int
    device: torch.device
    stacked: bool
    """Whether keys and orders have an axis of agents; else there is one agent."""
    shaken: bool
    """Whether pictures are changed by chance."""
    _asked: dict[Asked, None] = field(default_factory=dict)
    _spaced: Tensor | None = None

    def epoch(self, epoch: int, steps: int) -> EpochDraws:
        """Return the draws of an epoch of so many steps."""
        keys = np.array([chance.key for chance in self.chances], np.uint64)
        host = _Host(keys, epoch, steps)
        parts: list[npt.NDArray[Any]] = [self._orders(epoch)]
        if self.shaken:
            parts.append(host.picture_words(self.sizes, self.batch))
        parts += [host.of(*asked) for asked in self._asked]
        there = self._copied(parts)
        order, words = there[0], there[1] if self.shaken else None
        known = dict(zip(self._asked, there[len(there) - len(self._asked) :], strict=True))
        return EpochDraws(self, host, order, words, known, {})

    def asked_for(self, asked: Asked, host: _Host) -> Tensor:
        """Return keys that nobody asked for before, and remember that they will be needed."""
        self._asked[asked] = None
        return self._copied([host.of(*asked)])[0]

    def spaced(self, start: int, count: int) -> Tensor:
        """Return what words add to a key; computed once for the longest that was asked for."""
        if self._spaced is None or len(self._spaced) < start + count:
            self._spaced = spaced(0, start + count, self.device)
        return self._spaced[start : start + count]

    def _orders(self, epoch: int) -> npt.NDArray[np.int64]:
        """Return where each agent's samples are, shuffled (A, most), padded by its first."""
        sizes = np.asarray(self.sizes)
        starts = np.cumsum(sizes) - sizes
        order = np.repeat(starts[:, None], sizes[0], axis=1)
        for agent, chance in enumerate(self.chances):
            order[agent, : sizes[agent]] += chance.shuffled(epoch, sizes[agent])
        return order

    def _copied(self, parts: Sequence[npt.NDArray[np.generic]]) -> list[Tensor]:
        """Return arrays of 64-bit numbers (..., A, n) on the device, by one copy."""
        flat = np.concatenate([part.reshape(-1).view(np.int64) for part in parts])
        there = torch.from_numpy(flat).to(self.device).split([part.size for part in parts])
        shapes = [part.shape if self.stacked else self._alone(part.shape) for part in parts]
        return [one.view(shape) for one, shape in zip(there, shapes, strict=True)]

    def _alone(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return a shape without its axis of one agent, the first of two."""
        return shape[1:]


@dataclass(frozen=True, eq=False)
class _Host:
    """Keys (A,) of the agents in an epoch of so many steps, where numbers are drawn one by one."""

    keys: Words
    epoch: int
    steps: int

    def of(self, purpose: int, place: int | None) -> Words:
        """Return the keys of each step, or their subkeys at a place (A, steps)."""
        keys = words_at(words_at(self.keys, purpose), self.epoch)
        found = np.stack([words_at(keys, step) for step in range(self.steps)], axis=1)
        return found if place is None else words_at(found, place)

    def picture_words(self, sizes: Sequence[int], batch: int) -> Words:
        """Return a word for each sample in the epoch's order (A, most); of none, 0."""
        words = np.zeros((len(sizes), sizes[0]), np.uint64)
        for agent, keys in enumerate(self.of(AUGMENTATION, None).tolist()):
            for step, key in enumerate(keys):
                rows = words[agent, step * batch : min(sizes[agent], (step + 1) * batch)]
                rows[:] = random_words(key, 0, len(rows))
        return words


@dataclass(frozen=True, eq=False)
class EpochDraws:
    """The draws of an epoch: `order` and `words` (..., most) of the samples, and keys by step."""

    draws: Draws
    host: _Host
    order: Tensor
    words: Tensor | None
    """Of pictures; None where they stay as they are."""
    known: dict[Asked, Tensor]
    """Keys of all steps, (steps,) or (A, steps)."""
    _kept: dict[DropoutLayer, _Kept]

    def step(self, step: int, agents: int, first: int = 0) -> StepChance:
        """Return the chance of a step of the first agents, or of a part that begins at a row."""
        return StepChance(_StepKeys(self, step, agents), first)

    def of(self, asked: Asked) -> Tensor:
        """Return keys of all steps."""
        if asked not in self.known:
            self.known[asked] = self.draws.asked_for(asked, self.host)
        return self.known[asked]

    def kept(self, layer: DropoutLayer, step: int, agents: int) -> Tensor:
        """Return which elements of a batch's rows a dropout keeps in a step, bool (..., n)."""
        found = self._kept.get(layer)
        if found is None or not found.first <= step < found.end:
            found = self._kept[layer] = self._drawn(layer, step, agents)
        table = found.table
        return table[:agents, step - found.first] if table.dim() == 3 else table[step - found.first]

    def _drawn(self, layer: DropoutLayer, step: int, agents: int) -> _Kept:
        """Return what a dropout keeps from a step on, of the agents that take it."""
        words = -(-self.draws.batch * layer.elements // LANES)
        end = min(self.host.steps, step + max(1, _WORDS_AT_ONCE // max(1, agents * words)))
        keys = self.of((DROPOUT, layer.number))
        some = keys[:agents, step:end] if keys.dim() > 1 else keys[step:end]
        drawn = mixed(some.unsqueeze(-1) + self.draws.spaced(0, words))
        return _Kept(step, end, layer.kept_by(drawn))


@dataclass(frozen=True, eq=False)
class _Kept:
    """What a dropout keeps in the steps from `first` to before `end`."""

    first: int
    end: int
    table: Tensor
    """bool (steps, n), or (A, steps, n) of the agents that take the first of them."""


@dataclass(frozen=True, eq=False)
class _StepKeys:
    """The keys of a step, out of those of an epoch."""

    drawn: EpochDraws
    step: int
    agents: int

    @property
    def axes(self) -> int:
        """Axes of keys."""
        return int(self.drawn.draws.stacked)

    def of(self, purpose: int, place: int | None) -> Tensor:
        """Return the keys of a purpose, or their subkeys."""
        keys = self.drawn.of((purpose, place))
        return keys[: self.agents, self.step] if self.axes else keys[self.step]

    def spaced(self, start: int, count: int) -> Tensor:
        """Return what words add to a key."""
        return self.drawn.draws.spaced(start, count)

    def kept(self, layer: DropoutLayer, first: int, rows: int) -> Tensor:
        """Return which elements of some rows of the batch a dropout keeps."""
        of_batch = self.drawn.kept(layer, self.step, self.agents)
        start = first * layer.elements
        return of_batch[..., start : start + rows * layer.elements]
