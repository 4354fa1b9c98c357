"""Chance by position: shuffles, crops and dropout are functions of who, when and where.

A key names a sequence of 64-bit words, those of `learning.numerics.counter_generator` (SplitMix64),
and word i of a sequence is again the key of a sequence. From the key of an agent in a round:

    word 0  shuffles       then epoch, then sample
    word 1  augmentation   then epoch, then batch, then row of the batch
    word 2  dropout        then epoch, then batch, then layer, then element
    word 3  a loss's own   then epoch, then batch, then number of the draw

A part of a batch has the rows and elements that it has in the batch; the own draws of a part that
begins with row r > 0 are the words of word r.

So one agent draws the same numbers alone, in a stack and on every machine, whatever others do.
torch computes modulo 2^64 in int64; NumPy's uint64 gives the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fleetledger.learning.networks.seeding import stream_key
from fleetledger.learning.numerics.counter_generator import random_words

SHUFFLE, AUGMENTATION, DROPOUT, LOSS = 0, 1, 2, 3

LANES = 4
"""Dropout decides four elements by the four 16-bit parts of one word."""
_LEVELS = 1 << 16
_GENERATOR = 1 << 17
"""The place of a layer that begins torch's generator: no dropout reaches it by its number."""


@dataclass(frozen=True)
class Chance:
    """Whose chance, and when: everything that the numbers of one local training depend on."""

    seed: int
    agent: str
    stage: int = 0
    round: int = 0
    phase: str = ""

    @property
    def key(self) -> int:
        """The key of this training's sequences, from 0 to 2^64 - 1."""
        return stream_key(self.seed, self.agent, self.stage, self.round, self.phase)

    def shuffled(self, epoch: int, samples: int) -> npt.NDArray[np.int64]:
        """Return the order of the samples in an epoch, a permutation (samples,)."""
        key = word(word(self.key, SHUFFLE), epoch)
        return np.argsort(random_words(key, 0, samples), kind="stable")


def word(key: int, position: int) -> int:
    """Return one word of a sequence."""
    return int(random_words(key, position, 1)[0])


def signed(key: int) -> int:
    """Return the 64 bits of `key` read as a signed integer, as torch holds them."""
    return key - (1 << 64) if key >> 63 else key


def subkeys(keys: Tensor, position: int) -> Tensor:
    """Return word `position` of each sequence that `keys` (int64, any shape) name."""
    return mixed(keys + _constant((position + 1) * 0x9E3779B97F4A7C15))


def words(keys: Tensor, count: int, start: int = 0) -> Tensor:
    """Return `count` words of each sequence from word `start`: int64 (..., count), keys (...)."""
    return mixed(keys.unsqueeze(-1) + spaced(start, count, keys.device))


def spaced(start: int, count: int, device: torch.device) -> Tensor:
    """Return what words `start` to `start + count` add to a key, int64 (count,)."""
    positions = torch.arange(start + 1, start + count + 1, device=device)
    return positions * _constant(0x9E3779B97F4A7C15)


class Keys(Protocol):
    """Where the keys of a step's sequences come from."""

    @property
    def axes(self) -> int:
        """Axes of keys: none of one agent, one of a stack of them."""
        ...

    def of(self, purpose: int, place: int | None) -> Tensor:
        """Return the keys of a purpose in the step, or their subkeys at a place: int64 (...)."""
        ...

    def spaced(self, start: int, count: int) -> Tensor:
        """Return what so many words from word `start` on add to a key, int64 (count,)."""
        ...

    def kept(self, layer: DropoutLayer, first: int, rows: int) -> Tensor:
        """Return which elements of some rows of the batch a dropout keeps, (..., elements).

        Booleans, or what `DropoutLayer.scaled` makes of them.
        """
        ...


@dataclass(frozen=True)
class DropoutLayer:
    """A dropout: its number, how many of 2^16 levels it drops, and the elements of a row."""

    number: int
    levels: int
    elements: int

    def kept(self, keys: Keys, first: int, rows: int) -> Tensor:
        """Return which elements of rows from `first` on are kept, drawn for these alone."""
        skipped, beyond = divmod(first * self.elements, LANES)
        count = -(-(beyond + rows * self.elements) // LANES)
        drawn = keys.of(DROPOUT, self.number).unsqueeze(-1) + keys.spaced(skipped, count)
        return self.kept_by(mixed(drawn))[..., beyond : beyond + rows * self.elements]

    def kept_by(self, drawn: Tensor) -> Tensor:
        """Return which elements words (..., n) int64 keep, bool (..., 4 n): one for each lane."""
        return drawn.view(torch.int16) >= self.levels - _LEVELS // 2

    @property
    def scale(self) -> float:
        """What elements that are kept are multiplied by."""
        return _LEVELS / (_LEVELS - self.levels)

    def scaled(self, kept: Tensor) -> Tensor:
        """Return 0 or the scale for each element, float32; on an accelerator booleans as they are.

        There a kernel takes both at once; here a product of floats costs a third of it.
        """
        return kept if kept.device.type != "cpu" else kept.to(torch.float32).mul_(self.scale)


@dataclass(frozen=True, eq=False)
class DerivedKeys:
    """Keys that are derived where they lie, by those of the agents: `keys`, int64 () or (A,)."""

    keys: Tensor
    epoch: int
    batch: int

    @property
    def axes(self) -> int:
        """Axes of keys."""
        return int(self.keys.dim())

    def of(self, purpose: int, place: int | None) -> Tensor:
        """Return the keys of a purpose, or their subkeys."""
        keys = subkeys(subkeys(subkeys(self.keys, purpose), self.epoch), self.batch)
        return keys if place is None else subkeys(keys, place)

    def spaced(self, start: int, count: int) -> Tensor:
        """Return what words add to a key."""
        return spaced(start, count, self.keys.device)

    def kept(self, layer: DropoutLayer, first: int, rows: int) -> Tensor:
        """Return which elements are kept."""
        return layer.kept(self, first, rows)


@dataclass(frozen=True, eq=False)
class StepChance:
    """What a step draws, or a part of its batch."""

    keys: Keys
    first: int = 0
    """Row of the batch with which this part of it begins."""

    @classmethod
    def derived(cls, keys: Tensor, epoch: int, batch: int, first: int = 0) -> StepChance:
        """Return the chance of a batch of an epoch, by the keys of the agents."""
        return cls(DerivedKeys(keys, epoch, batch), first)

    def picture_words(self, rows: int) -> Tensor:
        """Return a word for each row of the batch, int64 (..., rows)."""
        return self._words(self.keys.of(AUGMENTATION, None), self.first, rows)

    def loss_words(self, count: int) -> Tensor:
        """Return so many words for what a loss draws, int64 (..., count)."""
        return self._words(self.keys.of(LOSS, self.first or None), 0, count)

    def dropout(self, values: Tensor, rate: float, layer: int) -> Tensor:
        """Return `values` (..., n, ...) with about `rate` of the elements zero, the rest scaled up.

        `rate` is rounded to a multiple of 2^-16, and the scale makes the expectation exact.
        Element e of an agent's batch, in row-major order, is decided by lane e % 4 of word e // 4.
        """
        dropped = round(rate * _LEVELS)
        rows, *row = values.shape[self.keys.axes :]
        drops = DropoutLayer(layer, dropped, prod(row))
        kept = self.keys.kept(drops, self.first, rows).reshape(values.shape)
        if kept.dtype == values.dtype:
            return values * kept
        left: Tensor = _Kept.apply(values, kept.bool(), drops.scale)
        return left

    def generator_seed(self) -> int:
        """Return what torch's generator begins with, for a module that draws by it; of one agent.

        A part of a batch has another one than the whole.
        """
        key = self.keys.of(DROPOUT, _GENERATOR + self.first)
        return int(key.item()) & ((1 << 63) - 1)

    def _words(self, keys: Tensor, start: int, count: int) -> Tensor:
        return mixed(keys.unsqueeze(-1) + self.keys.spaced(start, count))


class _Kept(torch.autograd.Function):  # type: ignore[misc]
    """values * kept * scale: a kernel for it, and one for its gradient."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's
        values: Tensor,
        kept: Tensor,
        scale: float,
    ) -> Tensor:
        ctx.save_for_backward(kept)
        ctx.scale = scale
        left: Tensor = torch.ops.aten.native_dropout_backward(values, kept, scale)
        return left

    @staticmethod
    def backward(
        ctx: Any,  # noqa: ANN401 - torch's
        slope: Tensor,
    ) -> tuple[Tensor, None, None]:
        (kept,) = ctx.saved_tensors
        return torch.ops.aten.native_dropout_backward(slope, kept, ctx.scale), None, None


def mixed(state: Tensor) -> Tensor:
    """Return the words of keys that were moved to their positions, as SplitMix64 mixes them."""
    state = (state ^ _right(state, 30)) * _constant(0xBF58476D1CE4E5B9)
    state = (state ^ _right(state, 27)) * _constant(0x94D049BB133111EB)
    return state ^ _right(state, 31)


def _right(state: Tensor, bits: int) -> Tensor:
    """Return the logical shift to the right; torch's own copies the sign."""
    return (state >> bits) & ((1 << (64 - bits)) - 1)


def _constant(number: int) -> int:
    return signed(number % (1 << 64))
