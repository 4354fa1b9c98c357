"""Dealing samples so that every site has a mix of classes of its own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetledger.simulator.errors import PartitionError
from fleetledger.simulator.plan.partitions import PartitionSettings, partition_by_site_dirichlet
from tests.simulator.plan.partitions.making import (
    assert_every_sample_once,
    counts,
    make_labels,
    stream,
)


def deal(labels: np.ndarray, devices: int, beta: float, seed: int = 0) -> list:
    return partition_by_site_dirichlet(labels, devices, PartitionSettings(beta=beta), stream(seed))


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    devices=st.integers(1, 6),
    beta=st.sampled_from([1e-3, 0.1, 1.0, 100.0]),
    seed=st.integers(0, 2**32),
)
def test_every_sample_is_dealt_once_and_sites_are_equally_large(sizes, devices, beta, seed):
    labels = make_labels(sizes)
    if len(labels) < devices:
        return
    parts = deal(labels, devices, beta, seed)
    assert_every_sample_once(parts, len(labels))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def obvious(labels: np.ndarray, devices: int, beta: float, random) -> list:
    """The draw one image at a time: a mix for each site, and classes that run out."""
    classes = sorted(set(labels.tolist()))
    stacks = {
        c: random.permutation([i for i, y in enumerate(labels) if y == c]).tolist() for c in classes
    }
    mixes = random.dirichlet([beta / len(classes)] * len(classes), devices)
    points, parts = random.random(len(labels)), [[] for _ in range(devices)]
    for turn, point in enumerate(points):
        site = turn % devices
        chances = [p if stacks[c] else 0.0 for c, p in zip(classes, mixes[site], strict=True)]
        if sum(chances) == 0:
            chances = [1.0 if stacks[c] else 0.0 for c in classes]
        mark, running = point * sum(chances), 0.0
        for name, chance in zip(classes, chances, strict=True):
            running += chance
            if mark < running:
                parts[site].append(stacks[name].pop())
                break
    return [sorted(part) for part in parts]


@pytest.mark.parametrize("beta", [0.1, 1.0, 100.0])
def test_the_draw_agrees_with_an_obvious_loop(beta: float):
    labels = make_labels([60, 45, 80, 33, 70])
    for seed in range(5):
        expected = obvious(labels, 4, beta, stream(seed))
        assert [part.tolist() for part in deal(labels, 4, beta, seed)] == expected


def test_a_small_alpha_leaves_a_site_few_classes_and_a_large_one_all_alike():
    labels = make_labels([200] * 10)
    few, even = (counts(labels, deal(labels, 5, alpha)) for alpha in (0.1, 1e5))
    assert few.max(axis=1).min() > 100
    assert np.abs(even - 40).max() < 25


def test_more_sites_than_samples_are_refused():
    with pytest.raises(PartitionError, match="3 cannot share 2 samples"):
        deal(make_labels([2]), 3, 1.0)
