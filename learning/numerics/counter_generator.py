"""Random numbers by position: word i is a function of (seed, i) alone, equal on every machine.

SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): word i mixes `seed + (i + 1) * 0x9E3779B97F4A7C15`
modulo 2^64. It needs nothing of NumPy but uint64 arithmetic, so no NumPy version can change it.

Entries of the integer map are the number of ones among 14 random bits, less 7: a binomial
distribution on the integers from -7 to 7 with variance 3.5, symmetric and close to normal
(excess kurtosis -1/7), as STSA's map wants it. Small entries keep q R below 2^24, where float32
products are exact (widths up to 18,000), and fit four bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

MAP_LARGEST = 7
"""Largest magnitude of an entry of the integer map."""

_BITS = 2 * MAP_LARGEST
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_LANES = 4
"""Map entries made from one word, each from the low bits of its own 16."""


def random_words(seed: int, start: int, count: int) -> npt.NDArray[np.uint64]:
    """Return words `start` to `start + count` of the sequence of `seed` (0 <= seed < 2^64)."""
    position = np.arange(start + 1, start + count + 1, dtype=np.uint64)
    return _mixed(np.uint64(seed) + position * _GAMMA)


def words_at(seeds: npt.NDArray[np.uint64], position: int) -> npt.NDArray[np.uint64]:
    """Return word `position` of the sequence of each of `seeds`, in their shape."""
    return _mixed(seeds + np.uint64((position + 1) * int(_GAMMA) % (1 << 64)))


def integer_map(seed: int, width: int, columns: int) -> npt.NDArray[np.int8]:
    """Return the integer map R (`width` x `columns`) with entries from -7 to 7.

    Entry k in row-major order counts the ones among bits 16 j to 16 j + 13 of word k // 4, where
    j = k % 4.
    """
    count = width * columns
    words = random_words(seed, 0, -(-count // _LANES))
    shifts = np.arange(_LANES, dtype=np.uint64) * np.uint64(16)
    lanes = (words[:, None] >> shifts).astype(np.uint16) & np.uint16((1 << _BITS) - 1)
    entries = _ones(lanes.reshape(-1)[:count]) - MAP_LARGEST
    return entries.astype(np.int8).reshape(width, columns)


def gaussian_map(seed: int, width: int, columns: int) -> npt.NDArray[np.float32]:
    """Return the paper's map R (`width` x `columns`), float32 with entries from N(0, 1).

    NumPy's Philox generator makes it; the values are NumPy's promise, not ours.
    """
    generator = np.random.Generator(np.random.Philox(seed))
    return generator.standard_normal((width, columns), dtype=np.float32)


def _mixed(word: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    word = (word ^ (word >> np.uint64(30))) * _MIX_1
    word = (word ^ (word >> np.uint64(27))) * _MIX_2
    return np.asarray(word ^ (word >> np.uint64(31)))


def _ones(lanes: npt.NDArray[np.uint16]) -> npt.NDArray[np.int16]:
    """Return the number of one bits of each lane, counted in parallel."""
    lanes = lanes - ((lanes >> 1) & np.uint16(0x5555))
    lanes = (lanes & np.uint16(0x3333)) + ((lanes >> 2) & np.uint16(0x3333))
    lanes = (lanes + (lanes >> 4)) & np.uint16(0x0F0F)
    return np.asarray((lanes + (lanes >> 8)) & np.uint16(0x1F), np.int16)
