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

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from learning.networks.seeding import stream_key
from learning.numerics.counter_generator import random_words

SHUFFLE, AUGMENTATION, DROPOUT, LOSS = 0, 1, 2, 3

_LANES = 4
"""Dropout decides four elements by the four 16-bit parts of one word."""
_LEVELS = 1 << 16


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
    return _mixed(keys + _constant((position + 1) * 0x9E3779B97F4A7C15))


def words(keys: Tensor, count: int, start: int = 0) -> Tensor:
    """Return `count` words of each sequence from word `start`: int64 (..., count), keys (...)."""
    gamma = _constant(0x9E3779B97F4A7C15)
    position = torch.arange(start + 1, start + count + 1, device=keys.device)
    return _mixed(keys.unsqueeze(-1) + position * gamma)


@dataclass(frozen=True, eq=False)
class Moment:
    """A step of the agents that `keys` (int64, () or (A,)) name: the batch of an epoch."""

    keys: Tensor
    epoch: int
    batch: int
    first: int = 0
    """Row of the batch with which this part of it begins."""

    def picture_words(self, rows: int) -> Tensor:
        """Return a word for each row of the batch, int64 (..., rows)."""
        return words(self._keys(AUGMENTATION), rows, self.first)

    def loss_words(self, count: int) -> Tensor:
        """Return so many words for what a loss draws, int64 (..., count)."""
        keys = self._keys(LOSS)
        return words(subkeys(keys, self.first) if self.first else keys, count)

    def dropout(self, values: Tensor, rate: float, layer: int) -> Tensor:
        """Return `values` (..., n, ...) with about `rate` of the elements zero, the rest scaled up.

        `rate` is rounded to a multiple of 2^-16, and the scale makes the expectation exact.
        Element e of an agent's batch, in row-major order, is decided by lane e % 4 of word e // 4.
        """
        dropped = round(rate * _LEVELS)
        rows, *row = values.shape[self.keys.dim() :]
        elements = prod(row)
        skipped, beyond = divmod(self.first * elements, _LANES)
        elements *= rows
        keys = subkeys(self._keys(DROPOUT), layer)
        drawn = words(keys, -(-(beyond + elements) // _LANES), skipped)
        lanes = drawn.view(torch.int16)[..., beyond : beyond + elements]
        kept = lanes.reshape(values.shape) >= dropped - _LEVELS // 2
        return values * kept * (_LEVELS / (_LEVELS - dropped))

    def _keys(self, purpose: int) -> Tensor:
        return subkeys(subkeys(subkeys(self.keys, purpose), self.epoch), self.batch)


def _mixed(state: Tensor) -> Tensor:
    state = (state ^ _right(state, 30)) * _constant(0xBF58476D1CE4E5B9)
    state = (state ^ _right(state, 27)) * _constant(0x94D049BB133111EB)
    return state ^ _right(state, 31)


def _right(state: Tensor, bits: int) -> Tensor:
    """Return the logical shift to the right; torch's own copies the sign."""
    return (state >> bits) & ((1 << (64 - bits)) - 1)


def _constant(number: int) -> int:
    return signed(number % (1 << 64))
