"""Masks vanish from the sum of those that came, and hide each of them alone."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from fleetledger.learning.errors import RangeError
from fleetledger.learning.privacy import masks, shares

MEMBERS = 5
WORDS = (1 << 16) + 13
"""More than a block."""
RANDOM = np.random.default_rng(7)


class Cohort:
    """Members with vectors of integers, and everything that they know of each other."""

    def __init__(self, words: int = WORDS) -> None:
        secrets = [bytes([place]) * 32 for place in range(MEMBERS)]
        self.keys = [masks.own_key(secret, "test") for secret in secrets]
        public = [key.public_key().public_bytes_raw() for key in self.keys]
        self.pairs = [
            {
                j: masks.SharedSecret.of(self.keys[i], public[j], "c")
                for j in range(MEMBERS)
                if j != i
            }
            for i in range(MEMBERS)
        ]
        self.own = [masks.derived(secret, "own mask") for secret in secrets]
        self.vectors = [RANDOM.integers(-(2**40), 2**40, words) for _ in range(MEMBERS)]

    def masked(self, place: int) -> masks.Words:
        seeds = {other: pair.seed for other, pair in self.pairs[place].items()}
        return masks.mask(self.vectors[place].view(np.uint64), place, seeds, self.own[place])

    def sum_of(self, present: list[int]) -> masks.Words:
        total = np.zeros(len(self.vectors[0]), np.uint64)
        for place in present:
            total += self.masked(place)
        silent = [place for place in range(MEMBERS) if place not in present]
        missing = {j: {i: self.pairs[i][j].seed for i in present} for j in silent}
        masks.unmask(total, [self.own[place] for place in present], missing)
        return total


@pytest.mark.parametrize("count", [5, 4, 3, 2, 1])
def test_whoever_is_missing_the_sum_is_exact(count: int) -> None:
    cohort = Cohort(words=100)
    for present in combinations(range(MEMBERS), count):
        expected = sum(cohort.vectors[place] for place in present)
        assert np.array_equal(cohort.sum_of(list(present)).view(np.int64), expected)


def test_blocks_of_words_have_one_mask() -> None:
    cohort = Cohort()
    assert np.array_equal(
        cohort.sum_of([0, 2, 3, 4]).view(np.int64), sum(cohort.vectors[i] for i in (0, 2, 3, 4))
    )
    stream = np.zeros(WORDS, np.uint64)
    masks.add_mask(stream, cohort.own[0])
    start = np.zeros(10, np.uint64)
    masks.add_mask(start, cohort.own[0])
    assert np.array_equal(stream[:10], start)
    assert not np.array_equal(stream[1 << 16 :][:10], start)


def test_words_behind_masks_are_evenly_spread_and_differ_for_equal_vectors() -> None:
    cohort = Cohort()
    cohort.vectors = [np.zeros(WORDS, np.int64)] * MEMBERS
    found = [cohort.masked(place) for place in range(MEMBERS)]
    for one, other in combinations(found, 2):
        assert not (one == other).any()
    bits = np.unpackbits(found[0].view(np.uint8))
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(len(bits))


def test_both_ends_of_a_pair_have_one_seed_and_another_cohort_has_others() -> None:
    cohort = Cohort(words=1)
    assert cohort.pairs[1][3] == cohort.pairs[3][1]
    public = cohort.keys[3].public_key().public_bytes_raw()
    assert masks.SharedSecret.of(cohort.keys[1], public, "another").seed != cohort.pairs[1][3].seed
    assert len({pair.seed for of in cohort.pairs for pair in of.values()}) == 10


def test_a_sealed_share_is_read_by_whom_it_is_for_and_by_nobody_else() -> None:
    cohort = Cohort(words=1)
    sealed = cohort.pairs[1][3].seal(b"share", "dev-1")
    assert cohort.pairs[3][1].open(sealed, "dev-1") == b"share"
    for pair, sender in ((cohort.pairs[3][1], "dev-3"), (cohort.pairs[3][2], "dev-1")):
        with pytest.raises(RangeError, match="was not sealed for this device"):
            pair.open(sealed, sender)


def test_a_key_of_small_order_is_refused() -> None:
    with pytest.raises(RangeError, match="gives no secret"):
        masks.SharedSecret.of(masks.own_key(bytes(32), "test"), bytes(32), "c")


def test_a_commitment_is_to_vector_and_nonce() -> None:
    vector = np.arange(4, dtype=np.uint64)
    said = masks.commitment(vector, bytes(32))
    assert said == masks.commitment(vector.copy(), bytes(32))
    assert said != masks.commitment(vector + np.uint64(1), bytes(32))
    assert said != masks.commitment(vector, bytes([1]) * 32)


@pytest.mark.parametrize(("threshold", "holders"), [(1, 1), (1, 3), (2, 3), (3, 3), (5, 7)])
def test_any_shares_as_many_as_the_threshold_give_the_secret(threshold: int, holders: int) -> None:
    secret = bytes(range(32))
    dealt = shares.split(secret, threshold, holders)
    for chosen in combinations(range(holders), threshold):
        assert shares.joined({place + 1: dealt[place] for place in chosen}) == secret
    assert shares.joined({place + 1: dealt[place] for place in range(holders)}) == secret


def test_fewer_shares_than_the_threshold_fit_every_secret() -> None:
    """For each secret there is one more share that completes it: so fewer tell nothing."""
    dealt = shares.split(bytes(32), 3, 5)
    fewer = {1: dealt[0], 2: dealt[1]}
    with_third = {
        shares.joined(fewer | {3: number.to_bytes(shares.SHARE_BYTES, "big")})
        for number in range(1, 200)
    }
    assert len(with_third) == 199


@pytest.mark.parametrize(
    ("secret", "threshold", "holders"), [(b"short", 1, 2), (bytes(32), 3, 2), (bytes(32), 0, 2)]
)
def test_a_secret_that_cannot_be_shared_so_is_refused(
    secret: bytes, threshold: int, holders: int
) -> None:
    with pytest.raises(RangeError, match="threshold"):
        shares.split(secret, threshold, holders)


def test_numbers_that_are_no_shares_are_refused() -> None:
    for wrong in ({}, {0: bytes(33)}, {1: b"\xff" * 33}):
        with pytest.raises(RangeError, match="shares"):
            shares.joined(wrong)
