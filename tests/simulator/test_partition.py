"""Dealing samples to devices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.errors import PartitionError
from simulator.partition import partition_by_dirichlet, partition_evenly


def make_labels(sizes: list[int], seed: int = 0) -> np.ndarray:
    labels = np.repeat(np.arange(len(sizes)), sizes).astype(np.int64)
    return np.random.default_rng(seed).permutation(labels)


def assert_every_sample_once(parts: list[np.ndarray], samples: int) -> None:
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(samples))
    assert all(len(part) for part in parts)
    assert all(np.array_equal(part, np.sort(part)) for part in parts)


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 80), min_size=1, max_size=6),
    devices=st.integers(1, 6),
    beta=st.sampled_from([0.3, 0.5, 1.0, 100.0]),
    seed=st.integers(0, 2**32),
)
def test_a_skewed_partition_deals_every_sample_once(sizes, devices, beta, seed):
    labels = make_labels(sizes)
    if len(labels) < 4 * devices:
        return
    assert_every_sample_once(partition_by_dirichlet(labels, devices, beta, seed), len(labels))


@given(samples=st.integers(1, 300), devices=st.integers(1, 20), seed=st.integers(0, 2**32))
def test_an_even_partition_deals_every_sample_once(samples, devices, seed):
    if samples < devices:
        return
    parts = partition_evenly(samples, devices, seed)
    assert_every_sample_once(parts, samples)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_the_seed_decides_the_partition():
    labels = make_labels([100, 100])
    first = partition_by_dirichlet(labels, 5, 0.3, seed=1)
    again = partition_by_dirichlet(labels, 5, 0.3, seed=1)
    other = partition_by_dirichlet(labels, 5, 0.3, seed=2)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def share_of_largest_holder(beta: float) -> float:
    """Mean share of a class that its largest holder has, over seeds; 0.2 would be even."""
    shares = []
    for seed in range(30):
        labels = make_labels([100] * 5, seed)
        parts = partition_by_dirichlet(labels, 5, beta, seed)
        counts = np.array([np.bincount(labels[part], minlength=5) for part in parts])
        shares.append((counts.max(axis=0) / counts.sum(axis=0)).mean())
    return float(np.mean(shares))


def test_a_smaller_beta_is_a_stronger_skew():
    strong, middle, weak = (share_of_largest_holder(beta) for beta in (0.1, 0.5, 100.0))
    assert strong > middle > weak
    assert strong > 0.6
    assert weak < 0.3


def test_a_device_with_its_fair_share_gets_nothing_of_later_classes():
    """Class 0 fills some device past N/K; of the classes after it that device holds none."""
    filled = 0
    for seed in range(40):
        labels = make_labels([60, 20, 20], seed)
        parts = partition_by_dirichlet(labels, 4, 0.2, seed)
        for part in parts:
            counts = np.bincount(labels[part], minlength=3)
            if counts[0] >= 100 / 4:
                filled += 1
                assert counts[1:].tolist() == [0, 0]
            if counts[:2].sum() >= 100 / 4:
                assert counts[2] == 0
    assert filled > 10


def test_the_cut_agrees_with_an_obvious_loop_over_the_shares():
    from simulator.partition import _cuts

    random = np.random.default_rng(5)
    for _ in range(200):
        shares = random.dirichlet(np.full(6, 0.4))
        samples = int(random.integers(1, 300))
        running, expected = 0.0, []
        for share in shares[:-1]:
            running += share
            expected.append(int(running * samples))
        assert np.abs(_cuts(shares, samples) - expected).max() <= 1


def test_a_vanishing_beta_gives_each_class_to_one_device():
    labels = make_labels([10, 10, 10, 10])
    for seed in range(5):
        assert_every_sample_once(partition_by_dirichlet(labels, 4, 1e-6, seed), 40)


def test_a_skew_that_always_leaves_a_device_empty_is_refused(monkeypatch):
    monkeypatch.setattr("simulator.partition.MAX_DRAWS", 20)
    with pytest.raises(PartitionError, match="larger beta"):
        partition_by_dirichlet(make_labels([40]), 4, 1e-6, seed=0)


@pytest.mark.parametrize("beta", [0.0, -1.0, float("nan"), float("inf")])
def test_a_beta_that_is_no_concentration_is_refused(beta: float):
    with pytest.raises(PartitionError, match="beta"):
        partition_by_dirichlet(make_labels([10, 10]), 2, beta, seed=0)


@pytest.mark.parametrize(("samples", "devices"), [(3, 4), (0, 1), (5, 0)])
def test_fewer_samples_than_devices_are_refused(samples: int, devices: int):
    with pytest.raises(PartitionError, match="devices"):
        partition_evenly(samples, devices, seed=0)
    with pytest.raises(PartitionError, match="devices"):
        partition_by_dirichlet(np.zeros(samples, np.int64), devices, 0.3, seed=0)
