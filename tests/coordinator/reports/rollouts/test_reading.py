"""A rollout is told in plain sentences, with the evidence, and with what became of each device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import pytest

from fleetledger.coordinator.dashboard.parts.need_actions import with_doing
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.reports.fleet import fleet_now
from fleetledger.coordinator.reports.rollouts.curves import MOST_POINTS, OLD, grown, thinned
from fleetledger.coordinator.reports.rollouts.lookup import one_rollout, summaries, unfinished
from fleetledger.coordinator.reports.rollouts.report import EvidencePoint, RolloutReport
from fleetledger.coordinator.reports.rollouts.sentences import odds
from fleetledger.coordinator.reports.rollouts.story import ComparedThen
from fleetledger.coordinator.topics.rollouts.entries import (
    RolloutAborted,
    RolloutPaused,
    RolloutResumed,
)
from fleetledger.coordinator.topics.rollouts.evalues import log_evidence
from fleetledger.coordinator.topics.rollouts.plan import GatePlan
from tests.coordinator.reports.rollouts.stories import finished, forgetting, waiting
from tests.coordinator.reports.rollouts.tales import Tale


@contextmanager
def reading(folder: Path, tale: Tale) -> Iterator[LedgerReader]:
    with ledger_of(tale.write(folder)) as ledger:
        yield ledger


def report(folder: Path, tale: Tale) -> RolloutReport:
    with reading(folder, tale) as ledger:
        return one_rollout(ledger, 7, tale.now_ns)


def test_a_rollout_that_forgets_a_class_says_which_by_how_much_and_on_whose_word(
    tmp_path: Path,
) -> None:
    found = report(tmp_path, forgetting())
    assert found.rollout.sentence == "Rollout 7 is paused: with model 12, devices forget orange."
    verdict = found.verdict
    assert verdict is not None
    assert (verdict.group, verdict.outcome, verdict.gate) == (3, "fail", "no_class_lost")
    assert "images of orange on 37 devices" in verdict.sentence
    assert "only model 11 had right" in verdict.sentence
    assert any("does not rest on one device" in text for text in verdict.more)
    assert verdict.devices == 38
    assert verdict.equal
    assert set(verdict.entries) >= {line.index for line in found.devices if line.stage == "refused"}


def test_evidence_grows_report_by_report_to_what_the_gate_says(tmp_path: Path) -> None:
    found = report(tmp_path, forgetting())
    (line,) = [one for one in found.gates if one.group == 3 and one.gate == "no_class_lost"]
    curve = found.evidence[-1].classes[0]
    assert (curve.name, line.of_class) == ("orange", "orange")
    assert curve.log_e == pytest.approx(line.value, abs=1e-3)
    assert curve.points[-1].devices == curve.devices == 37
    assert line.short == f"orange: {curve.only_active} : {curve.only_candidate}, log e 8.4"
    assert [one.group for one in found.evidence] == [1, 2, 3]


def test_devices_stand_where_the_ledger_says(tmp_path: Path) -> None:
    found = report(tmp_path, forgetting())
    assert found.counts == {
        "settled": 7,
        "switched": 30,
        "refused": 1,
        "unreached": 1,
        "waiting": 161,
    }
    assert sum(found.counts.values()) == len(found.devices) == 200
    (refused,) = [one for one in found.devices if one.stage == "refused"]
    assert (refused.reason, refused.group, refused.ran) == ("self-test over 300 s", 3, False)
    assert [(one.devices, one.done, one.stage) for one in found.groups] == [
        (1, 1, "passed"),
        (6, 6, "passed"),
        (32, 1, "stopped"),
        (161, 0, "ahead"),
    ]


def test_exposure_never_passes_what_open_groups_allow(tmp_path: Path) -> None:
    found = report(tmp_path, forgetting())
    assert [one.devices for one in found.exposure.allowed] == [1, 7, 39]
    for point in found.exposure.ran:
        allowed = [one for one in found.exposure.allowed if one.time <= point.time]
        assert point.devices <= allowed[-1].devices
    assert found.exposure.ran[-1].devices == found.rollout.ran == 37
    assert [mark.text for mark in found.exposure.marks] == ["paused"]


def test_what_went_back_says_so_and_names_who_runs_the_former_model(tmp_path: Path) -> None:
    found = report(tmp_path, forgetting(back=True))
    assert found.rollout.stage == "rolled_back"
    assert found.rollout.sentence == (
        "Rollout 7 went back to model 11: with model 12, devices forget orange."
    )
    assert found.counts["rolled_back"] == 37
    assert found.steps[-1].title == "Went back"


def test_a_finished_rollout_has_passed_every_gate(tmp_path: Path) -> None:
    found = report(tmp_path, finished())
    assert found.rollout.stage == "finished"
    assert {line.outcome for line in found.gates if line.group == 2} == {"pass"}
    assert all(step.state == "done" for step in found.steps)
    assert {line.stage for line in found.devices} == {"settled"}


def test_a_group_waits_for_who_approves_it(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert report(tmp_path / "a", waiting()).rollout.waits_for == "approval"
    approved = report(tmp_path / "b", waiting(approved=1))
    assert approved.rollout.waits_for is None
    assert [step.text for step in approved.steps if step.title == "Approved"] == ["by bo"]


def test_who_paused_and_who_aborted_is_told_in_their_words(tmp_path: Path) -> None:
    tale = waiting(approved=1)
    tale.say(RolloutPaused(rollout=7, reason="the harvest goes on."), actor="operator:ana")
    (tmp_path / "a").mkdir()
    told = report(tmp_path / "a", tale).rollout
    assert told.sentence == "Rollout 7 is paused: the harvest goes on."
    tale.say(RolloutResumed(rollout=7), actor="operator:ana")
    tale.say(RolloutAborted(rollout=7, reason="another one comes", by=8))
    (tmp_path / "b").mkdir()
    told = report(tmp_path / "b", tale).rollout
    assert (told.stage, told.sentence) == (
        "superseded",
        "Rollout 7 ended where it was: rollout 8 took its place.",
    )


def test_rollouts_are_listed_newest_first_and_the_open_one_is_known(tmp_path: Path) -> None:
    with reading(tmp_path, forgetting()) as ledger:
        (listed,) = summaries(ledger, 0)
        assert (listed.number, listed.stage, listed.devices, listed.ran) == (7, "paused", 39, 37)
        assert unfinished(ledger, 0) == [listed]
        assert summaries(ledger, 0, version=11) == []
        with pytest.raises(CommandError, match="rollout: 8 is none"):
            one_rollout(ledger, 8, 0)


def test_evidence_grows_with_the_first_report_of_each_device_that_has_images() -> None:
    def said(device: str, index: int, worse: int, better: int, both: int = 36) -> ComparedThen:
        pairs = {"both": both, "only_active": worse, "only_candidate": better, "neither": 0}
        body = {"group": 1, "mode": "run", "classes": {"plum": pairs}, "new_classes": []}
        return ComparedThen(device, index, body)

    reports = [said("a", 1, 4, 0), said("b", 2, 0, 2), said("a", 3, 0, 2), said("c", 4, 0, 0, 0)]
    found = grown(reports, GatePlan(cap=0.2))
    assert (found["plum"].worse, found["plum"].better, found["plum"].images) == (4, 2, 78)
    half, quarter = Fraction(1, 2), Fraction(-5, 19)
    assert [(point.devices, point.log_e) for point in found[OLD].points] == [
        (1, log_evidence({half: 1})),
        (2, log_evidence({half: 1, quarter: 1})),
    ]
    assert found["plum"].heaviest() == ("a", log_evidence({quarter: 1}, Fraction(1, 100)))


def test_a_long_curve_keeps_its_highest_point_and_its_last() -> None:
    points = [
        EvidencePoint(devices=n, log_e=9.0 if n == 777 else n / 1000, index=n) for n in range(1000)
    ]
    kept = thinned(points)
    assert len(kept) <= MOST_POINTS
    assert points[777] in kept
    assert kept[-1] == points[-1]


@pytest.mark.parametrize(
    ("log_e", "told"), [(0.0, "one of 1"), (4.7, "one of 100"), (7.4, "one of 1,600")]
)
def test_evidence_is_told_as_how_seldom_it_turns_up(log_e: float, told: str) -> None:
    assert odds(log_e) == told


@pytest.mark.parametrize(
    ("tale", "urgency", "sentence", "command"),
    [
        (forgetting, "now", "Rollout 7 is paused: with model 12", "fleetledger rollout show 7"),
        (waiting, "now", "group 1 waits to be approved", "fleetledger rollout approve 7"),
        (finished, None, "", ""),
    ],
)
def test_what_needs_a_person_is_a_need(
    tale: Callable[[], Tale], urgency: str | None, sentence: str, command: str, tmp_path: Path
) -> None:
    made = tale()
    with reading(tmp_path, made) as ledger:
        needs = fleet_now(ledger, None, made.now_ns).needs
    found = [need for need in needs if "ollout" in need.sentence]
    if urgency is None:
        assert found == []
        return
    (need,) = found
    assert (need.urgency, need.command) == (urgency, command)
    assert sentence in need.sentence
    assert with_doing(need).doing is not None
