"""What a coordinator can compute from all that members of a cohort may be brought to tell it.

A member tells, of each other, its seed with it or a share of its own mask, as `schemas.cohorts`
says; the coordinator may tell each member another story, and has the secrets of some members.

Of words y_i = x_i + pair masks + own mask, a combination with weights a_i is free of a pair mask
that is not known only where a_i = a_j, and of an own mask that is not known only where a_i = 0. So
what can be computed are the sums over components of the graph of unknown pairs in which every own
mask is known: those are searched here, over all stories.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
import pytest

from fleetledger.learning.privacy import masks
from fleetledger.schemas.cohorts import threshold_of

Story = tuple[frozenset[int], bool]
"""What a member is told: who is silent, and whether the sum is opened then."""


def stories(member: int, members: int) -> list[Story]:
    """Return all that a member believes: never itself, and no more than the threshold leaves."""
    others = [place for place in range(members) if place != member]
    most = members - threshold_of(members)
    silent = [frozenset(some) for size in range(most + 1) for some in combinations(others, size)]
    return [(some, opened) for some in silent for opened in (False, True)]


def sums_known(
    told: dict[int, Story], members: int, helpers: frozenset[int]
) -> Iterator[frozenset[int]]:
    """Yield the sets of honest members whose sum can be computed, the smallest that there are."""
    honest = set(told)
    threshold = threshold_of(members)
    opened = {
        i
        for i in honest
        if len(helpers) + sum(opens and i not in silent for silent, opens in told.values())
        >= threshold
    }
    left = set(honest)
    while left:
        component, edge = set(), {left.pop()}
        while edge:
            i = edge.pop()
            component.add(i)
            unknown = {j for j in left if j not in told[i][0] and i not in told[j][0]}
            left -= unknown
            edge |= unknown
        if component <= opened:
            yield frozenset(component)


@pytest.mark.parametrize(
    ("members", "helpers"), [(3, 0), (3, 1), (4, 0), (4, 1), (5, 0), (5, 1), (5, 2), (6, 3)]
)
def test_no_story_gives_a_sum_of_fewer_than_the_argument_says(members: int, helpers: int) -> None:
    """With c helpers of n members no sum is of fewer than 2 t - n - c honest ones."""
    theirs = frozenset(range(helpers))
    honest = range(helpers, members)
    least = 2 * threshold_of(members) - members - helpers
    found = [
        len(known)
        for told in product(*(stories(member, members) for member in honest))
        for known in sums_known(dict(zip(honest, told, strict=True)), members, theirs)
    ]
    assert found
    assert min(found) >= max(least, 1)


def test_one_story_for_all_gives_one_sum_of_everybody_present() -> None:
    members, helpers = 12, frozenset((0, 1))
    told = {member: (frozenset((10, 11)), True) for member in range(2, 10)}
    assert list(sums_known(told, members, helpers)) == [frozenset(range(2, 10))]


def test_a_coordinator_with_two_of_twelve_finds_no_sum_but_that_of_all_others() -> None:
    """It takes off all masks that it knows, and tries every set of the ten others."""
    random, words = np.random.default_rng(3), 64
    keys = [masks.own_key(random.bytes(32), "test") for _ in range(12)]
    public = [key.public_key().public_bytes_raw() for key in keys]
    own = [random.bytes(32) for _ in range(12)]
    vectors = random.integers(0, 2**30, (12, words)).astype(np.uint64)
    left = []
    for i, key in enumerate(keys):
        seeds = {
            j: masks.SharedSecret.of(key, other, "c").seed
            for j, other in enumerate(public)
            if j != i
        }
        seen = masks.mask(vectors[i], i, seeds, own[i])
        masks.add_mask(seen, own[i], taken_off=True)
        for j in {0, 1} - {i}:
            masks.add_mask(seen, seeds[j], taken_off=j > i)
        left.append(seen)
    others = range(2, 12)
    for size in range(1, 11):
        for some in combinations(others, size):
            found = sum((left[i] for i in some), np.zeros(words, np.uint64))
            is_sum = found == vectors[list(some)].sum(axis=0)
            assert is_sum.all() if size == 10 else not is_sum.any()
            if size < 10:  # and it looks like nothing but random bits
                bits = np.unpackbits(found.view(np.uint8)).mean()
                assert abs(bits - 0.5) < 6 * 0.5 / np.sqrt(64 * words)
