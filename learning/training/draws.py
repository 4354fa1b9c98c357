"""What chance decides in an epoch, drawn on the host and copied to the device in one piece.

A copy out of the host's memory waits for what the device was asked before, so on an accelerator the
epochs of a training are drawn and copied together, as many as are small.

The order of the samples, a word for each of them that its picture is shaken by, and the keys of
what is drawn on the device itself: those of dropouts by step and layer, those of losses by step.
Which layers there are is known once they have asked; what is asked for later than that is copied by
itself, for all epochs that are drawn.

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

from fleetledger.learning.numerics.counter_generator import random_words, words_at
from fleetledger.learning.training.chance import (
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
_NUMBERS_AHEAD = 1 << 21
"""Of the epochs that are copied together: 16 MiB on the device."""


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
    epochs: int = 1
    """Of the training; more are drawn when they are asked for."""
    _asked: dict[Asked, None] = field(default_factory=dict)
    _ahead: dict[int, EpochDraws] = field(default_factory=dict)
    """Epochs that are drawn, and that nobody has asked for yet."""
    _spaced: Tensor | None = None

    def epoch(self, epoch: int, steps: int) -> EpochDraws:
        """Return the draws of an epoch of so many steps, as all epochs of a training have."""
        if epoch not in self._ahead:
            last = max(epoch + 1, min(self.epochs, epoch + self._at_once(steps)))
            drawn = [self._drawn(one, steps) for one in range(epoch, last)]
            there = iter(self._copied([part for _, parts in drawn for part in parts]))
            self._ahead = {
                host.epoch: self._made(host, [next(there) for _ in parts]) for host, parts in drawn
            }
        return self._ahead.pop(epoch)

    def ask(self, asked: Asked, of: EpochDraws) -> None:
        """Let an epoch know keys that nobody asked for before, and those that are drawn ahead."""
        self._asked[asked] = None
        epochs = [of, *self._ahead.values()]
        there = self._copied([one.host.of(*asked) for one in epochs])
        for one, keys in zip(epochs, there, strict=True):
            one.known[asked] = keys

    def _at_once(self, steps: int) -> int:
        """Return how many epochs are copied together; on the processor nothing is copied."""
        if self.device.type == "cpu":
            return 1
        samples = len(self.sizes) * self.sizes[0] * (2 if self.shaken else 1)
        keys = len(self._asked) * len(self.sizes) * steps
        return max(1, _NUMBERS_AHEAD // max(1, samples + keys))

    def _drawn(self, epoch: int, steps: int) -> tuple[_Host, list[npt.NDArray[Any]]]:
        """Return what is drawn of an epoch: its order, words for pictures, keys."""
        keys = np.array([chance.key for chance in self.chances], np.uint64)
        host = _Host(keys, epoch, steps)
        parts: list[npt.NDArray[Any]] = [self._orders(epoch)]
        if self.shaken:
            parts.append(host.picture_words(self.sizes, self.batch))
        return host, parts + [host.of(*asked) for asked in self._asked]

    def _made(self, host: _Host, there: Sequence[Tensor]) -> EpochDraws:
        """Return the same on the device."""
        order, words = there[0], there[1] if self.shaken else None
        known = dict(zip(self._asked, there[len(there) - len(self._asked) :], strict=True))
        return EpochDraws(self, host, order, words, known, {})

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
            self.draws.ask(asked, self)
        return self.known[asked]

    def kept(self, layer: DropoutLayer, step: int, agents: int) -> Tensor:
        """Return which elements of a batch's rows a dropout keeps in a step, `scaled` (..., n)."""
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
        return _Kept(step, end, layer.scaled(layer.kept_by(drawn)))


@dataclass(frozen=True, eq=False)
class _Kept:
    """What a dropout keeps in the steps from `first` to before `end`."""

    first: int
    end: int
    table: Tensor
    """Of (steps, n), or of (A, steps, n) of the agents that take the first of them."""


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
