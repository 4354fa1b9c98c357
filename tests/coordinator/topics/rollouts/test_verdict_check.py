"""A verdict made again from the entries that it names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.topics.models.entries import DeviceModelStatus
from fleetledger.coordinator.topics.rollouts.entries import ModelCompared, RolloutMeasured
from fleetledger.coordinator.topics.rollouts.evidence import Evidence
from fleetledger.coordinator.topics.rollouts.plan import GatePlan
from fleetledger.coordinator.topics.rollouts.verdict import judge
from fleetledger.coordinator.topics.rollouts.verdict_check import StoredReport, differences
from tests.coordinator.topics.rollouts.reports import (
    CANDIDATE,
    SECOND_GROUP,
    comparison,
    device,
    pairs,
)

LIMITS = GatePlan()


def status(state: str, throttled: int | None = None) -> DeviceModelStatus:
    said = {"version": 2, "manifest": CANDIDATE, "state": state, "throttled": throttled}
    return DeviceModelStatus.model_validate({"status": said})


def stored() -> list[StoredReport]:
    """Reports of twelve devices, of which one failed twice and came through at last."""
    bodies: list[tuple[int, EntryBody]] = []
    for number in range(12):
        one = comparison({"fig": pairs(3, number % 2)}, memory=(100, 110))
        bodies += [(number, ModelCompared(comparison=one)), (number, status("settled", 0))]
    bodies[1:1] = [(0, status("failed")), (0, status("rolled_back"))]
    return [
        StoredReport(7 * index, device(number), body) for index, (number, body) in enumerate(bodies)
    ]


REPORTS = stored()
INDICES = [report.index for report in REPORTS]


def recorded() -> RolloutMeasured:
    """The verdict that the coordinator wrote."""
    evidence = Evidence()
    for report in REPORTS:
        assert report.device is not None
        if isinstance(report.body, ModelCompared):
            evidence.compare(report.index, report.device, report.body.comparison)
        elif isinstance(report.body, DeviceModelStatus) and report.body.status.state == "settled":
            evidence.settle(report.index, report.device, report.body.status.throttled)
        else:
            evidence.fail(report.index, report.device)
    verdict = judge(LIMITS, evidence, SECOND_GROUP)
    return RolloutMeasured(
        rollout=1,
        group=2,
        mode="run",
        outcome=verdict.outcome,
        members=SECOND_GROUP.members,
        gates=verdict.gates,
        entries=tuple(evidence.entries),
    )


MEASURED = recorded()


def of(measured: RolloutMeasured, reports: list[StoredReport] = REPORTS) -> list[str]:
    named = [report for report in reports if report.index in measured.entries]
    return differences(measured, LIMITS, SECOND_GROUP, named, INDICES)


def test_what_nobody_touched_is_made_again_as_it_was() -> None:
    assert MEASURED.outcome == "fail"
    assert of(MEASURED) == []


def test_another_outcome_is_told() -> None:
    assert of(MEASURED.model_copy(update={"outcome": "pass"})) == [
        "outcome: recorded pass, made again fail"
    ]


def test_a_figure_that_was_changed_is_told_by_gate_and_field() -> None:
    first = MEASURED.gates[0].model_copy(update={"counts": (3, 12)})
    changed = MEASURED.model_copy(update={"gates": (first, *MEASURED.gates[1:])})
    assert of(changed) == ["health.counts: recorded (3, 12), made again (0, 12)"]


def test_the_last_digit_of_a_logarithm_is_the_machine_s_and_the_one_before_is_not() -> None:
    place = next(i for i, finding in enumerate(MEASURED.gates) if finding.gate == "retention")
    value = MEASURED.gates[place].value
    assert value is not None
    for error, count in ((0.001, 0), (0.002, 1)):
        gates = list(MEASURED.gates)
        gates[place] = gates[place].model_copy(update={"value": value + error})
        assert len(of(MEASURED.model_copy(update={"gates": tuple(gates)}))) == count


def test_a_gate_that_was_left_out_or_made_up_is_told() -> None:
    without = MEASURED.model_copy(update={"gates": MEASURED.gates[1:]})
    assert of(without) == ["health: not recorded, made again it is pass"]
    made_up = MEASURED.gates[0].model_copy(update={"gate": "agreement"})
    more = MEASURED.model_copy(update={"gates": (*MEASURED.gates, made_up)})
    assert of(more) == ["agreement: recorded, but made again it says nothing"]


def test_a_report_that_it_leaves_out_is_told() -> None:
    found = of(MEASURED.model_copy(update={"entries": MEASURED.entries[:-1]}))
    assert found[0] == f"reports of the rollout before it that it does not name: {INDICES[-1]}"


def test_a_report_of_another_rollout_is_none() -> None:
    body = REPORTS[0].body
    assert isinstance(body, ModelCompared)
    other = body.comparison.model_copy(update={"rollout": 2})
    changed = [replace(REPORTS[0], body=ModelCompared(comparison=other)), *REPORTS[1:]]
    assert "entry 0 is no report that counts in rollout 1" in of(MEASURED, changed)


def test_what_it_names_must_be_there_once_and_in_order() -> None:
    assert "entries that it names are not there: 0" in of(MEASURED, REPORTS[1:])
    for entries, text in (
        ((*INDICES, 500), "it names what is no report of the rollout before it: 500"),
        ((*INDICES, INDICES[0]), "it names an entry twice"),
        (tuple(reversed(INDICES)), "it does not name its entries in their order"),
    ):
        assert text in of(MEASURED.model_copy(update={"entries": entries}))


@pytest.mark.parametrize("place", range(0, 26, 5))
def test_a_report_that_was_changed_afterwards_is_noticed(place: int) -> None:
    report = REPORTS[place]
    if isinstance(report.body, ModelCompared):
        other = report.body.comparison.model_copy(update={"classes": {"fig": pairs(0, 1)}})
        report = replace(report, body=ModelCompared(comparison=other))
    else:
        report = replace(report, body=status("failed"))
    if REPORTS[place].body != report.body:
        assert of(MEASURED, [*REPORTS[:place], report, *REPORTS[place + 1 :]])
