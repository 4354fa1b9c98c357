"""What became of a rollout is read from the ledger, whoever wrote it."""

from __future__ import annotations

import pytest

from fleetledger.simulator.report.tables.rollouts import verdict_sentence
from fleetledger.simulator.rollouts.record import RolloutRecord
from fleetledger.simulator.rollouts.rollout_reader import ParticipatingFleet, read_rollout
from tests.simulator.rollouts.entries import FLEET, REASON, rollout, stopped

ALL = ParticipatingFleet(FLEET, lambda _device: True)


@pytest.fixture
def record() -> RolloutRecord:
    return read_rollout(rollout(), stopped(), ALL, "bad-class")


def test_exposure_counts_who_ever_ran_it_and_who_runs_it(record: RolloutRecord):
    steps = [(step.seconds, step.ever, step.running) for step in record.exposure]
    assert steps == [(0, 0, 0), (10, 1, 1), (35, 2, 2), (55, 2, 1), (60, 2, 0)]
    assert record.ever == 2


def test_phases_have_their_members_and_verdicts(record: RolloutRecord):
    told = [
        (phase.group, phase.devices, phase.opened_seconds, phase.decided_seconds, phase.outcome)
        for phase in record.phases
    ]
    assert told == [(1, 1, 0, 20, "pass"), (2, 4, 30, 50, "fail")]
    assert record.phases[1].evidence == 3


def test_the_end_is_told_with_its_reason(record: RolloutRecord):
    assert (record.end, record.reason, record.seconds) == ("rolled back", REASON, 50)
    assert (record.failed, record.unreached, record.former) == (1, 1, 7)
    assert verdict_sentence(record) == (
        "Model 8 (bad-class) was rolled back: Class 4 is lost on 3 devices. 2 of 10 devices ever "
        "ran it; it took 50.00\u00a0s."
    )


def test_members_are_those_that_the_tags_fit():
    fleet = ParticipatingFleet(FLEET, lambda device: device != FLEET[0])
    record = read_rollout(rollout(), stopped(), fleet, "bad-class")
    assert record.members == 9
    assert [phase.devices for phase in record.phases] == [0, 3]
