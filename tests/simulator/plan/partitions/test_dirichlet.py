"""Dealing samples with a skew by class."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetledger.simulator.errors import PartitionError
from fleetledger.simulator.plan.partitions import PartitionSettings, _cuts, partition_by_dirichlet
from tests.simulator.plan.partitions.making import (
    assert_every_sample_once,
    counts,
    make_labels,
    stream,
)


def deal(labels: np.ndarray, devices: int, beta: float, seed: int = 0, **others) -> list:
    asked = PartitionSettings(beta=beta, **others)
    return partition_by_dirichlet(labels, devices, asked, stream(seed))


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 80), min_size=1, max_size=6),
    devices=st.integers(1, 6),
    beta=st.sampled_from([0.3, 0.5, 1.0, 100.0]),
    seed=st.integers(0, 2**32),
    cut=st.booleans(),
    least=st.integers(0, 2),
)
def test_every_sample_is_dealt_once(sizes, devices, beta, seed, cut, least):
    labels = make_labels(sizes)
    if len(labels) < 6 * devices:
        return
    parts = deal(labels, devices, beta, seed, full_devices_get_none=cut, least_images=least)
    assert_every_sample_once(parts, len(labels))
    assert min(map(len, parts)) >= least


def paper_routine(labels: np.ndarray, devices: int, beta: float, cut: bool, random) -> list:
    """The routine as the STSA page words it, one sample at a time."""
    fair, parts = len(labels) / devices, [[] for _ in range(devices)]
    while not all(parts):
        parts = [[] for _ in range(devices)]
        for label in sorted(set(labels.tolist())):
            members = random.permutation([i for i, y in enumerate(labels) if y == label])
            shares = random.dirichlet([beta] * devices)
            shares = [
                0 if cut and len(p) >= fair else s for s, p in zip(shares, parts, strict=True)
            ]
            running, ends = 0.0, []
            for share in shares:
                running += share
                ends.append(running)
            for place, member in enumerate(members):
                owner = next(
                    k for k, end in enumerate(ends) if place < int(end / running * len(members))
                )
                parts[owner].append(int(member))
    return [sorted(part) for part in parts]


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("beta", [0.1, 0.5, 1.0])
def test_the_draw_agrees_with_an_obvious_loop_over_samples(beta: float, cut: bool):
    labels = make_labels([60, 45, 80, 33, 70])
    for seed in range(5):
        expected = paper_routine(labels, 5, beta, cut, stream(seed))
        parts = deal(labels, 5, beta, seed, full_devices_get_none=cut)
        assert [part.tolist() for part in parts] == expected


def test_the_random_numbers_decide_the_partition():
    labels = make_labels([100, 100])
    first, again, other = (deal(labels, 5, 0.3, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_without_the_cut_shares_have_the_moments_of_the_distribution():
    """Shares of Dirichlet(beta, ..., beta) over K: mean 1/K, variance (K-1) / (K^2 (K beta + 1)).

    This is DCID's Dirichlet(alpha p) with alpha = K beta.
    """
    devices, beta, runs = 5, 0.4, 400
    labels = make_labels([1000] * 4)
    shares = np.concatenate(
        [
            counts(labels, deal(labels, devices, beta, s, full_devices_get_none=False)) / 1000
            for s in range(runs)
        ]
    ).ravel()
    variance = (devices - 1) / (devices**2 * (devices * beta + 1))
    assert shares.mean() == pytest.approx(1 / devices)
    assert shares.var() == pytest.approx(variance, rel=0.06)


def share_of_largest_holder(beta: float) -> float:
    """Mean share of a class that its largest holder has, over seeds; 0.2 would be even."""
    shares = []
    for seed in range(30):
        labels = make_labels([100] * 5, seed)
        held = counts(labels, deal(labels, 5, beta, seed))
        shares.append((held.max(axis=0) / held.sum(axis=0)).mean())
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
        for held in counts(labels, deal(labels, 4, 0.2, seed)):
            if held[0] >= 100 / 4:
                filled += 1
                assert held[1:].tolist() == [0, 0]
            if held[:2].sum() >= 100 / 4:
                assert held[2] == 0
    assert filled > 10


def test_without_the_cut_full_devices_get_more():
    more = 0
    for seed in range(40):
        labels = make_labels([60, 20, 20], seed)
        held = counts(labels, deal(labels, 4, 0.5, seed, full_devices_get_none=False))
        more += int(((held[:, 0] >= 100 / 4) & (held[:, 1:].sum(axis=1) > 0)).sum())
    assert more > 10


def test_the_cut_agrees_with_an_obvious_loop_over_the_shares():
    random = np.random.default_rng(5)
    for _ in range(200):
        shares = random.dirichlet(np.full(6, 0.4))
        samples = int(random.integers(1, 300))
        running, expected = 0.0, []
        for share in shares[:-1]:
            running += share
            expected.append(int(running * samples))
        assert np.abs(_cuts(shares, samples) - expected).max() <= 1


def test_a_vanishing_beta_deals_every_sample_too():
    """Where all shares that are not cut come out as zero, the open devices share evenly."""
    labels = make_labels([10, 10, 10, 10])
    for seed in range(5):
        assert_every_sample_once(deal(labels, 4, 1e-6, seed), 40)


def test_a_skew_that_always_leaves_a_device_empty_is_refused(monkeypatch):
    monkeypatch.setattr("fleetledger.simulator.plan.partitions.MAX_DRAWS", 20)
    with pytest.raises(PartitionError, match="larger beta"):
        deal(make_labels([40]), 4, 1e-6)


def test_a_thousand_devices_may_stay_without_images_where_that_is_allowed(monkeypatch):
    monkeypatch.setattr("fleetledger.simulator.plan.partitions.MAX_DRAWS", 20)
    labels = make_labels([500] * 10)
    with pytest.raises(PartitionError, match="least_images = 0"):
        deal(labels, 1000, 0.5)
    parts = deal(labels, 1000, 0.5, least_images=0)
    assert_every_sample_once(parts, 5000)
    assert min(map(len, parts)) == 0


@pytest.mark.parametrize(("samples", "devices"), [(3, 4), (0, 1), (5, 0)])
def test_fewer_samples_than_devices_are_refused(samples: int, devices: int):
    with pytest.raises(PartitionError, match=f"devices: {devices}"):
        deal(np.zeros(samples, np.int64), devices, 0.3)
