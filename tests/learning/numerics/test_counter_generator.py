"""The counter-based generator: published words, positions, and the shape of the map."""

import hashlib

import numpy as np
import pytest

from fleetledger.learning.numerics.counter_generator import gaussian_map, integer_map, random_words


def slow_word(seed: int, position: int) -> int:
    mask = 2**64 - 1
    z = (seed + (position + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def slow_entry(seed: int, position: int) -> int:
    lane = slow_word(seed, position // 4) >> (16 * (position % 4)) & 0x3FFF
    return lane.bit_count() - 7


def test_the_words_are_those_published_for_splitmix64():
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert random_words(1234567, 0, 5).tolist() == published


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_a_word_depends_on_its_position_alone(seed):
    words = random_words(seed, 0, 50)
    assert words.tolist() == [slow_word(seed, i) for i in range(50)]
    assert np.array_equal(random_words(seed, 20, 30), words[20:])


def test_the_map_counts_ones_as_described():
    entries = integer_map(7, 5, 9).reshape(-1)
    assert entries.tolist() == [slow_entry(7, i) for i in range(45)]


def test_the_map_never_changes():
    digest = hashlib.sha256(integer_map(1, 64, 1250).tobytes()).hexdigest()
    assert digest == "cc95e35d9ff7e7eeb86d33acbe1bc48f28f281f6eb4ebad00035c736a879b75d"


def test_the_map_is_close_to_normal():
    entries = integer_map(3, 500, 1000).astype(np.float64).reshape(-1)
    assert entries.min() >= -7
    assert entries.max() <= 7
    assert abs(entries.mean()) < 0.02
    assert abs(entries.var() - 3.5) < 0.03
    assert abs((entries**4).mean() / entries.var() ** 2 - (3 - 1 / 7)) < 0.03


def test_columns_of_the_map_are_uncorrelated():
    entries = integer_map(3, 2000, 60).astype(np.float64)
    correlation = np.corrcoef(entries.T) - np.eye(60)
    assert np.abs(correlation).max() < 0.11


def test_neighbouring_seeds_give_unrelated_maps():
    one, two = (integer_map(seed, 200, 200).reshape(-1).astype(float) for seed in (10, 11))
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.02


def test_the_gaussian_map_is_float32_from_its_seed():
    one, again, other = gaussian_map(5, 30, 40), gaussian_map(5, 30, 40), gaussian_map(6, 30, 40)
    assert one.dtype == np.float32
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert abs(one.mean()) < 0.1
    assert abs(one.std() - 1) < 0.1
