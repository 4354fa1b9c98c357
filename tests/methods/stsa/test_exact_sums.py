"""The digests that everything rests on: any order, any division, undone by subtraction."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from fleetledger.methods.errors import MethodError
from fleetledger.methods.stsa.aggregate import StsaAggregate
from fleetledger.methods.stsa.coordinator import COORDINATOR
from tests.methods.stsa.fleet import (
    EVERY_KIND,
    GAUSSIAN,
    SMALL,
    Samples,
    assignment,
    make_samples,
    payload_of,
    payloads,
    summed,
)

EXACT = assignment({**SMALL, "form": "exact"})
SAMPLES = make_samples(EXACT, 150, classes=4)


def skewed_parts(samples: Samples, devices: int, seed: int) -> list[np.ndarray]:
    """Return rows per device, some devices with one class only, in random order."""
    rng = np.random.default_rng(seed)
    owner = rng.choice(devices, len(samples.labels), p=rng.dirichlet(np.full(devices, 0.5)))
    parts = [np.flatnonzero(owner == device) for device in rng.permutation(devices)]
    return [rng.permutation(rows) for rows in parts if len(rows)]


def doubled_without_end(aggregate: StsaAggregate) -> None:
    while True:
        aggregate = aggregate + aggregate


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("devices", [5, 50])
@pytest.mark.parametrize("settings", [k for k in EVERY_KIND if k["form"] == "exact"][:3])
def test_every_division_and_order_gives_the_same_digest(settings, devices, threads):
    told = assignment(settings)
    samples = make_samples(told, 200, classes=5)
    whole = summed(told, [payload_of(told, samples)]).digest
    with threadpool_limits(threads, user_api="blas"):
        for seed in range(3):
            parts = payloads(told, samples, skewed_parts(samples, devices, seed))
            assert summed(told, parts).digest == whole


@settings(max_examples=30)
@given(st.lists(st.integers(0, 6), min_size=150, max_size=150), st.randoms())
def test_any_partition_at_all_gives_the_same_digest(owners, random):
    parts = [np.flatnonzero(np.array(owners) == owner) for owner in set(owners)]
    random.shuffle(parts)
    whole = summed(EXACT, [payload_of(EXACT, SAMPLES)])
    divided = summed(EXACT, payloads(EXACT, SAMPLES, parts))
    assert divided.digest == whole.digest


@pytest.mark.parametrize("settings", EVERY_KIND)
def test_every_order_and_grouping_of_the_same_payloads_gives_the_same_digest(settings):
    told = assignment(settings)
    samples = make_samples(told, 120, classes=4)
    parts = payloads(told, samples, skewed_parts(samples, 9, 0))
    one = summed(told, parts).digest
    assert summed(told, parts[::-1]).digest == one
    grouped = summed(told, parts[:4]) + summed(told, parts[4:])
    assert grouped.digest == one


@pytest.mark.parametrize("settings", EVERY_KIND)
def test_adding_in_the_memory_of_a_sum_gives_the_same_digest(settings):
    told = assignment(settings)
    parts = payloads(told, make_samples(told, 120, classes=4), np.array_split(np.arange(120), 4))
    expected = summed(told, parts).digest
    total = summed(told, parts[:2])
    memory = total.gram.values
    for payload in parts[2:]:
        total += StsaAggregate.of(told, COORDINATOR.check(told, payload), 1)
    assert total.digest == expected
    assert total.gram.values is memory


def test_repeats_that_the_ledger_leaves_out_do_not_matter():
    told = assignment()
    parts = payloads(told, SAMPLES, np.array_split(np.arange(150), 6))
    delivered = [parts[i] for i in (3, 0, 0, 2, 5, 4, 1, 3, 2)]
    once = list(dict.fromkeys(delivered))
    assert summed(told, once).digest == summed(told, parts).digest


@pytest.mark.parametrize("settings", EVERY_KIND)
def test_subtraction_undoes_addition_bit_for_bit(settings):
    told = assignment(settings)
    samples = make_samples(told, 90)
    samples.labels[40:50] = ["only here"] * 10
    parts = payloads(told, samples, [np.arange(0, 40), np.arange(40, 50), np.arange(50, 90)])
    without = summed(told, [parts[0], parts[2]])
    taken_out = summed(told, parts) - summed(told, [parts[1]])
    assert taken_out.digest == without.digest
    assert "only here" not in taken_out.classes
    nothing = taken_out - without
    assert nothing.digest == StsaAggregate.empty(told).digest


def test_other_data_gives_another_digest():
    whole = summed(EXACT, [payload_of(EXACT, SAMPLES)]).digest
    for change in ("feature", "label"):
        features, labels = SAMPLES.features.copy(), list(SAMPLES.labels)
        if change == "feature":
            features[0, 0] = (features[0, 0] + 1) % 128
        else:
            labels[0] = "another"
        other = summed(EXACT, [payload_of(EXACT, Samples(features, labels))])
        assert other.digest != whole


def test_the_digest_is_the_same_on_every_machine():
    told = assignment({"map": "none", "form": "exact"}, width=3)
    features = np.array([[127, -5, 0], [3, 127, 9], [-127, 1, 1]], np.float32)
    samples = Samples(features, ["b", "a", "b"])
    digest = summed(told, [payload_of(told, samples)]).digest
    assert digest == "e55e4b8f2867fbb5bf5313d1e5ebd1fd12281ee4076dac52c8fffb33cf1d3b71"


def test_steps_that_parts_chose_for_themselves_do_not_show_in_the_digest():
    told = assignment({**GAUSSIAN, "gaussian_steps": (-24, -20)})
    samples = make_samples(told, 60)
    small = Samples(samples.features[:30], samples.labels[:30])
    large = Samples(samples.features[30:] * 100, samples.labels[30:])
    parts = [payload_of(told, part) for part in (small, large)]
    steps = {COORDINATOR.check(told, payload).gram.exponent for payload in parts}
    assert len(steps) == 2
    assert summed(told, parts).digest == summed(told, parts[::-1]).digest
    assert summed(told, parts).gram.exponent == -24


def test_renaming_and_merging_classes_is_as_if_they_had_had_the_name():
    named = summed(EXACT, [payload_of(EXACT, SAMPLES)])
    renamed = named.renamed({"class 1": "cat", "class 2": "class 0"})
    spelling = {"class 1": "cat", "class 2": "class 0"}
    labels = [spelling.get(label, label) for label in SAMPLES.labels]
    direct = summed(EXACT, [payload_of(EXACT, Samples(SAMPLES.features, labels))])
    assert renamed.digest == direct.digest
    assert renamed.samples == {name: labels.count(name) for name in sorted(set(labels))}


def test_what_was_not_added_cannot_be_taken_out():
    some = summed(EXACT, [payload_of(EXACT, SAMPLES[np.arange(20)])])
    more = summed(EXACT, [payload_of(EXACT, SAMPLES)])
    with pytest.raises(MethodError, match="what is taken out was not added"):
        some - more


def test_aggregates_of_different_lineages_are_not_added():
    for other in (assignment({"map_width": 41, "form": "exact"}), assignment()):
        with pytest.raises(MethodError, match="different lineages"):
            StsaAggregate.empty(EXACT) + StsaAggregate.empty(other)
        total = StsaAggregate.empty(EXACT)
        with pytest.raises(MethodError, match="different lineages"):
            total += StsaAggregate.empty(other)


def test_a_sum_that_could_overflow_is_refused_rather_than_wrapped():
    told = assignment({**SMALL, "form": "exact"})
    part = summed(told, [payload_of(told, SAMPLES)])
    with pytest.raises(MethodError, match="may leave int64"):
        doubled_without_end(part)
