"""Gates on answers, time, memory, heat, and devices on which a model failed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from fleetledger.coordinator.topics.rollouts.evidence import Evidence, p95
from fleetledger.coordinator.topics.rollouts.gates import GateFinding, ask, gate_of
from fleetledger.coordinator.topics.rollouts.plan import GatePlan
from fleetledger.coordinator.topics.rollouts.scope import Scope
from fleetledger.schemas.rollouts import LATENCY_BINS, LATENCY_FIRST_SECONDS, LATENCY_RATIO
from tests.coordinator.topics.rollouts.reports import (
    SECOND_GROUP,
    comparison,
    device,
    evidence_of,
)

LIMITS = GatePlan()
health, latency, memory, thermal, agreement, entropy = (
    partial(ask, gate_of(name))
    for name in ("health", "latency", "memory", "thermal", "agreement", "entropy")
)


def histogram(seconds: float, count: int = 20) -> tuple[int, ...]:
    """Samples that all took the same."""
    number = int(np.log(seconds / LATENCY_FIRST_SECONDS) / np.log(LATENCY_RATIO))
    return (*[0] * number, count)


def said(found: GateFinding | None) -> GateFinding:
    assert found is not None
    return found


def group_of(members: int) -> Scope:
    return Scope(group=2, mode="run", members=members, classes=10, devices=members)


def test_entropy_may_shift_a_little_either_way_and_no_further() -> None:
    for after, outcome in ((0.59, "pass"), (0.61, "fail"), (0.39, "fail"), (0.41, "pass")):
        evidence = evidence_of(*[comparison(entropy=(50, 0.5, after))] * 12)
        assert said(entropy(LIMITS, evidence, group_of(12))).outcome == outcome


def test_entropy_of_few_images_says_nothing() -> None:
    found = said(entropy(LIMITS, evidence_of(comparison(entropy=(499, 0, 9))), SECOND_GROUP))
    assert (found.outcome, found.too_little) == ("inconclusive", True)


def test_entropy_that_few_devices_shift_passes_and_half_of_them_is_for_a_person() -> None:
    calm, shifted = comparison(entropy=(100, 0.5, 0.5)), comparison(entropy=(10**6, 0, 2))
    found = said(entropy(LIMITS, evidence_of(shifted, *[calm] * 6), group_of(7)))
    assert (found.outcome, found.alone, found.value) == ("pass", None, 0.0)
    for one in (shifted, comparison(entropy=(500, 2, 0))):
        found = said(entropy(LIMITS, evidence_of(calm, calm, one, one), group_of(4)))
        assert (found.outcome, found.alone) == ("inconclusive", device(0))
        found = said(entropy(LIMITS, evidence_of(calm, calm, one, one, one), group_of(5)))
        assert (found.outcome, found.alone) == ("fail", device(4))
        assert "Without dev-0004 it would not be so." in found.text


def test_models_that_disagree_never_fail_but_a_person_should_look() -> None:
    found = said(agreement(LIMITS, evidence_of(comparison(agreed=(169, 200))), SECOND_GROUP))
    assert (found.outcome, found.too_little) == ("inconclusive", False)
    found = said(agreement(LIMITS, evidence_of(comparison(agreed=(170, 200))), SECOND_GROUP))
    assert found.outcome == "pass"
    found = said(agreement(LIMITS, evidence_of(comparison(agreed=(0, 199))), SECOND_GROUP))
    assert (found.outcome, found.too_little) == ("inconclusive", True)
    assert agreement(LIMITS, evidence_of(comparison()), SECOND_GROUP) is None


def test_no_device_agrees_for_the_others() -> None:
    loud = comparison(agreed=(10**6, 10**6))
    found = said(
        agreement(LIMITS, evidence_of(loud, *[comparison(agreed=(80, 100))] * 9), SECOND_GROUP)
    )
    assert (found.outcome, found.value) == ("inconclusive", pytest.approx(0.82))
    found = said(agreement(LIMITS, evidence_of(loud, comparison(agreed=(84, 100))), SECOND_GROUP))
    assert found.outcome == "inconclusive"


def test_a_percentile_is_that_of_the_samples_within_a_bin() -> None:
    seconds = np.random.default_rng(0).lognormal(-4, 0.5, 5000)
    bins = (np.log(seconds / LATENCY_FIRST_SECONDS) / np.log(LATENCY_RATIO)).astype(int)
    counts = np.bincount(bins, minlength=LATENCY_BINS).tolist()
    assert float(p95(counts)) == pytest.approx(np.quantile(seconds, 0.95), rel=0.02)
    with pytest.raises(ValueError, match="nothing"):
        p95([0] * LATENCY_BINS)


@pytest.mark.parametrize(
    ("active", "candidate", "outcome"),
    [
        (0.050, 0.055, "pass"),
        (0.050, 0.080, "fail"),
        (0.002, 0.004, "pass"),  # twice as slow, by what nobody notices
        (0.050, 0.020, "pass"),
    ],
)
def test_what_is_slower_by_share_and_by_time_fails(
    active: float, candidate: float, outcome: str
) -> None:
    one = comparison(latency=(histogram(active), histogram(candidate)))
    found = said(latency(LIMITS, evidence_of(*[one] * 10), group_of(10)))
    assert (found.outcome, found.alone) == (outcome, None)


def test_few_latencies_say_nothing() -> None:
    one = comparison(latency=(histogram(0.01, 99), histogram(1, 99)))
    found = said(latency(LIMITS, evidence_of(one), SECOND_GROUP))
    assert (found.outcome, found.too_little) == ("inconclusive", True)


def test_a_model_that_is_slow_on_one_device_alone_passes_however_often_it_says_so() -> None:
    slow = comparison(latency=(histogram(0.05, 10**6), histogram(0.5, 10**6)))
    usual = comparison(latency=(histogram(0.05), histogram(0.05)))
    found = said(latency(LIMITS, evidence_of(*[usual] * 12, slow), SECOND_GROUP))
    assert (found.outcome, found.alone, found.value) == ("pass", None, 1.0)
    found = said(latency(LIMITS, evidence_of(slow, usual), group_of(2)))
    assert (found.outcome, found.alone) == ("inconclusive", device(1))
    found = said(latency(LIMITS, evidence_of(slow, slow, usual), group_of(3)))
    assert (found.outcome, found.alone) == ("fail", device(1))


def test_no_device_hides_that_a_model_is_slow() -> None:
    slow = comparison(latency=(histogram(0.05), histogram(0.5)))
    hides = comparison(latency=(histogram(0.5, 10**6), histogram(0.05, 10**6)))
    found = said(latency(LIMITS, evidence_of(hides, *[slow] * 5), group_of(6)))
    assert (found.outcome, found.alone) == ("fail", None)


def test_memory_is_compared_on_devices_that_tell_both() -> None:
    told = [comparison(memory=(100, 126))] * 3
    half = comparison(memory=(10**9, None))
    found = said(memory(LIMITS, evidence_of(*told, half), group_of(4)))
    assert (found.outcome, found.counts, found.value) == ("fail", (3,), pytest.approx(1.26))
    assert memory(LIMITS, evidence_of(half), SECOND_GROUP) is None
    found = said(memory(LIMITS, evidence_of(comparison(memory=(100, 125))), SECOND_GROUP))
    assert found.outcome == "pass"
    found = said(memory(LIMITS, evidence_of(comparison(memory=(100, 126))), group_of(1)))
    assert (found.outcome, found.alone) == ("fail", device(0))


def test_the_first_to_report_are_not_the_group() -> None:
    slow = comparison(latency=(histogram(0.05, 100), histogram(0.5, 100)), memory=(10, 100))
    sure = comparison(entropy=(500, 2, 0))
    usual = comparison(
        latency=(histogram(0.05), histogram(0.05)), memory=(10, 10), entropy=(20, 1, 1)
    )
    for gate, bad in ((latency, slow), (memory, slow), (entropy, sure)):
        for first in (1, 2, 11, 25):
            found = said(gate(LIMITS, evidence_of(*[bad] * first), SECOND_GROUP))
            assert found.outcome == "inconclusive", (gate, first)
        assert "fails where more than half of 51 devices exceed that" in found.text
        found = said(gate(LIMITS, evidence_of(*[bad] * 26), SECOND_GROUP))
        assert (found.outcome, found.alone) == ("fail", device(25))
        assert said(gate(LIMITS, evidence_of(*[bad] * 27), SECOND_GROUP)).alone is None
        found = said(gate(LIMITS, evidence_of(*[bad] * 24, *[usual] * 27), SECOND_GROUP))
        assert found.outcome == "pass", gate


def felt(*throttled: int | None) -> Evidence:
    evidence = Evidence()
    for number, count in enumerate(throttled):
        evidence.settle(number, device(number), count)
    return evidence


def test_heat_on_two_devices_stops_a_group_of_five_and_not_one_of_fifty() -> None:
    of_many = replace(SECOND_GROUP, devices=1000)
    assert said(thermal(LIMITS, felt(0, 7, 0), group_of(5))).outcome == "pass"
    found = said(thermal(LIMITS, felt(1, 7, 0, 0, None), group_of(5)))
    assert (found.outcome, found.counts, found.alone) == ("fail", (2, 4), device(0))
    assert said(thermal(LIMITS, felt(1, 7, 9, 0, 0), group_of(5))).alone is None
    for hot, outcome in ((2, "pass"), (4, "pass"), (5, "fail")):
        found = said(thermal(LIMITS, felt(*[3] * hot, *[0] * (51 - hot)), of_many))
        assert (found.outcome, found.limit) == (outcome, 4)
    assert thermal(LIMITS, felt(None, None), SECOND_GROUP) is None
    one = said(thermal(GatePlan(throttled_devices=0, throttled_share=0), felt(1, 0), group_of(5)))
    assert (one.outcome, one.alone) == ("fail", device(0))


def test_heat_on_all_of_the_few_that_can_tell_is_for_a_person() -> None:
    found = said(
        thermal(LIMITS, felt(*[2] * 4, *[None] * 200), replace(group_of(204), devices=999))
    )
    assert (found.outcome, found.counts) == ("inconclusive", (4, 4))


def finished(failed: int, settled: int) -> Evidence:
    evidence = Evidence()
    for number in range(failed + settled):
        if number < failed:
            evidence.fail(number, device(number))
        else:
            evidence.settle(number, device(number), 0)
    return evidence


@pytest.mark.parametrize(
    ("failed", "settled", "outcome"),
    [
        (1, 3, "pass"),  # a quarter, but one device
        (2, 98, "pass"),  # exactly a fiftieth
        (2, 97, "inconclusive"),  # more than that, and yet it may be chance
        (20, 980, "pass"),
        (21, 979, "inconclusive"),
        (34, 966, "fail"),
        (1, 0, "inconclusive"),  # it came to run nowhere
        (2, 0, "fail"),
        (0, 0, "inconclusive"),
    ],
)
def test_failures_count_by_number_and_by_share_of_all(
    failed: int, settled: int, outcome: str
) -> None:
    found = health(LIMITS, finished(failed, settled), group_of(failed + settled))
    assert (found.outcome, found.counts) == (outcome, (failed, failed + settled))


def test_two_devices_of_a_thousand_that_fail_hold_no_group() -> None:
    of_many = replace(SECOND_GROUP, devices=1000)
    for settled in (0, 1, 20, 49):
        found = health(LIMITS, finished(2, settled), of_many)
        assert found.outcome != "fail", settled
    assert found.outcome == "pass"
    assert health(LIMITS, finished(5, 0), of_many).outcome == "fail"
    assert health(LIMITS, finished(5, 46), of_many).alone == device(0)
    liars = GatePlan(liars=0.02)
    assert health(liars, finished(5, 46), of_many).outcome == "pass"
    assert health(LIMITS, finished(5, 5), replace(of_many, members=900)).outcome == "inconclusive"


def test_before_the_switch_a_device_has_finished_with_its_comparison() -> None:
    evidence = Evidence()
    evidence.compare(0, device(0), comparison(mode="shadow"))
    assert health(LIMITS, evidence, Scope(1, "shadow", 1, 10)).outcome == "pass"
    assert health(LIMITS, evidence, Scope(1, "run", 1, 10)).outcome == "inconclusive"
