"""Records of stages, from entries written by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    ContributionWithdrawn,
    NothingReported,
)
from fleetledger.coordinator.topics.rounds.entries import RoundOpened
from fleetledger.coordinator.topics.stages.entries import TransitionReported
from fleetledger.schemas.contributions import Nothing, Part, PartKey, Withdrawal
from fleetledger.schemas.reports import Transition
from fleetledger.schemas.rounds import TRAIN, Observation, RoundAnswer
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.simulator.engines.recorder import Recorder, StageMeasures, Usage
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.plan.fleet_plan import DeviceStage, FleetPlan, StagePlan
from fleetledger.simulator.records import StageRecord
from tests.simulator.engines.hand_made import LINEAGE, HandMadeLedger, offer
from tests.simulator.engines.mqtt.test_questions import PLAN, contribute, open_stage

FIRST, SECOND = DeviceId("device-1"), DeviceId("device-2")
ANT, BEE, CAT = PLAN.class_names
EVERYBODY = (FIRST, SECOND)
THREE = FleetPlan(
    seed=1,
    class_names=PLAN.class_names,
    stages=tuple(
        StagePlan(number, (number - 1,), {name: DeviceStage(np.array([1])) for name in EVERYBODY})
        for number in (1, 2, 3)
    ),
)
"""A stage for each class."""


@pytest.fixture
def ledger() -> HandMadeLedger:
    made = HandMadeLedger()
    made.begin()
    return made


def recorder(ledger: HandMadeLedger, plan: FleetPlan = PLAN) -> Recorder:
    return Recorder(plan, ledger.reader)


def measured(**fields: object) -> StageMeasures:
    values = {"there": EVERYBODY, "usage": {}, "arrived_ns": {}, "seconds": {}}
    return StageMeasures(**{**values, "peak_memory_mib": 1.0, **fields})


def end_stage(ledger: HandMadeLedger, number: int) -> None:
    ledger.close(number)
    ledger.solve(number)
    ledger.desire(number)


def counted(made: Recorder, ledger: HandMadeLedger, number: int) -> list[int]:
    record = made.record(ledger.state, THREE.stages[number - 1], measured())
    return [record.devices[name].counted_samples for name in EVERYBODY]


def revise(ledger: HandMadeLedger, index: int, device: DeviceId, samples: int) -> int:
    before, _, _ = ledger.recorded[index]
    assert isinstance(before, ContributionAccepted)
    changes = {"revision": before.part.revision + 1, "samples": {ANT: samples}}
    part = before.part.model_copy(update=changes)
    return ledger.add(before.model_copy(update={"part": part, "replaces": index}), device)


def answer(
    ledger: HandMadeLedger,
    stage: int,
    device: DeviceId,
    samples: int,
    kept: int,
    kind: str = "weights",
) -> None:
    told = RoundAnswer(number=stage, samples=samples, steps=1, seconds=1.0, stored_samples=kept)
    ledger.add(
        ContributionAccepted(
            part=Part(
                key=PartKey(stage=stage, part=stage),
                revision=0,
                payload_kind=kind,
                payload=Digest.of(b"weights"),
                payload_bytes=100,
                samples={ANT: samples},
                method="rounds",
                lineage=LINEAGE,
                round=told,
            ),
            late=True,
        ),
        device,
    )


def learn_by_reports(ledger: HandMadeLedger) -> None:
    """Let the second stage of the plan be two stages of the ledger."""
    open_stage(ledger, 1, ANT)
    contribute(ledger, 1, FIRST, {ANT: 2})
    contribute(ledger, 1, SECOND, {ANT: 1})
    end_stage(ledger, 1)
    told = Transition(stage=1, number=0, why="class name", classes={BEE: 2, CAT: 1})
    ledger.add(TransitionReported(transition=told), FIRST)
    second = told.model_copy(update={"number": 1})
    ledger.add(TransitionReported(transition=second), SECOND)
    open_stage(ledger, 2, BEE)
    contribute(ledger, 2, FIRST, {BEE: 2})
    ledger.close(2)
    open_stage(ledger, 3, CAT)
    contribute(ledger, 3, FIRST, {CAT: 1})
    ledger.add(NothingReported(nothing=Nothing(stage=3)), SECOND)
    ledger.close(3)
    ledger.solve(2)
    ledger.desire(2)


def of_reports(ledger: HandMadeLedger, **fields: object) -> StageRecord:
    stage = replace(PLAN.stages[1], notes=("planned",))
    return recorder(ledger).record(ledger.state, stage, measured(**fields))


def moment_of_reports(ledger: HandMadeLedger) -> int:
    told = (time_ns for body, _, time_ns in ledger.recorded if "reported" in body.kind)
    return next(told)


def test_a_record_joins_the_stages_that_reports_made_of_one(ledger: HandMadeLedger):
    learn_by_reports(ledger)
    arrived_ns = dict.fromkeys(EVERYBODY, moment_of_reports(ledger) - 10**9)
    usage = {FIRST: Usage(100, 200, 0.5), SECOND: Usage(10, 20, 0.1)}
    record = of_reports(ledger, usage=usage, arrived_ns=arrived_ns, notes=("measured",))
    assert (record.stage, record.version, record.class_names) == (2, 2, (BEE, CAT))
    assert record.notes == ("planned", "measured")
    assert record.contributions == 4
    first, second = record.devices[FIRST], record.devices[SECOND]
    assert (first.arrived_samples, first.counted_samples) == (3, 3)
    assert (second.arrived_samples, second.counted_samples) == (0, 0)
    assert (first.bytes_up, first.bytes_down, first.compute_seconds) == (100, 200, 0.5)
    opened = ledger.state.stages.by_number[2].opened_ns
    (last,) = (at for body, _, at in ledger.recorded if isinstance(body, NothingReported))
    assert second.answered_seconds == pytest.approx((last - opened) / 1e9)
    solved = ledger.state.models.by_version[2].solved_ns
    assert record.fleet_seconds == pytest.approx((solved - arrived_ns[FIRST]) / 1e9)
    assert [(t.device, t.seconds, t.is_new, t.images) for t in record.transitions] == [
        (FIRST, 1.0, True, 3),
        (SECOND, 2.0, False, 0),
    ]


def test_a_report_before_the_images_came_is_told_and_not_right(ledger: HandMadeLedger):
    learn_by_reports(ledger)
    record = of_reports(ledger, arrived_ns={FIRST: moment_of_reports(ledger) + 1})
    assert [(t.device, t.seconds, t.is_new, t.images) for t in record.transitions] == [
        (FIRST, 0.0, False, 0),
        (SECOND, 0.0, False, 0),
    ]


def test_of_a_stage_learned_by_a_former_run_images_came_before_the_reports(ledger: HandMadeLedger):
    learn_by_reports(ledger)
    record = of_reports(ledger)
    assert [(t.seconds, t.is_new, t.images) for t in record.transitions] == [
        (0.0, True, 3),
        (0.0, False, 0),
    ]


def test_a_device_that_was_away_has_done_nothing(ledger: HandMadeLedger):
    learn_by_reports(ledger)
    record = of_reports(ledger, there=(FIRST,)).devices[SECOND]
    assert not record.online
    assert (record.counted_samples, record.bytes_up) == (0, 0)


def test_what_waited_counts_in_the_stage_in_which_it_came(ledger: HandMadeLedger):
    made = recorder(ledger, THREE)
    open_stage(ledger, 1, ANT)
    contribute(ledger, 1, FIRST, {ANT: 5})
    end_stage(ledger, 1)
    contribute(ledger, 1, SECOND, {ANT: 4})  # late: the model that goes round is without it
    assert counted(made, ledger, 1) == [5, 0]
    open_stage(ledger, 2, BEE)
    contribute(ledger, 2, SECOND, {BEE: 3})
    end_stage(ledger, 2)
    assert counted(made, ledger, 2) == [0, 7]


def test_parts_that_are_revised_or_taken_out_count_by_what_the_model_gained(ledger: HandMadeLedger):
    made = recorder(ledger, THREE)
    open_stage(ledger, 1, ANT)
    grown = revise(ledger, contribute(ledger, 1, FIRST, {ANT: 5}), FIRST, 8)
    index = contribute(ledger, 1, SECOND, {ANT: 4})
    key = PartKey(stage=1, part=index)
    withdrawal = Withdrawal(key=key, revision=1, reason="moved")
    ledger.add(ContributionWithdrawn(withdrawal=withdrawal, replaces=index), SECOND)
    end_stage(ledger, 1)
    assert counted(made, ledger, 1) == [8, 0]
    open_stage(ledger, 2, BEE)
    revise(ledger, grown, FIRST, 9)
    end_stage(ledger, 2)
    assert counted(made, ledger, 2) == [1, 0]


def test_what_comes_after_the_end_counts_where_a_newer_model_of_the_stage_has_it(
    ledger: HandMadeLedger,
):
    made = recorder(ledger, THREE)
    open_stage(ledger, 1, ANT)
    contribute(ledger, 1, FIRST, {ANT: 5})
    end_stage(ledger, 1)
    contribute(ledger, 1, SECOND, {ANT: 4})
    ledger.solve(2)
    ledger.desire(2)
    assert counted(made, ledger, 1) == [5, 4]


def test_of_rounds_the_last_answer_counts_and_exemplars_stay_until_told(ledger: HandMadeLedger):
    made = recorder(ledger, THREE)
    open_stage(ledger, 1, ANT)
    answer(ledger, 1, FIRST, samples=5, kept=2)
    answer(ledger, 1, FIRST, samples=6, kept=3)
    end_stage(ledger, 1)
    open_stage(ledger, 2, BEE)
    answer(ledger, 2, SECOND, samples=7, kept=4)
    end_stage(ledger, 2)
    one, two = (made.record(ledger.state, item, measured()) for item in THREE.stages[:2])
    assert [one.devices[name].counted_samples for name in EVERYBODY] == [6, 0]
    assert [one.devices[name].stored_samples for name in EVERYBODY] == [3, 0]
    assert [two.devices[name].counted_samples for name in EVERYBODY] == [0, 7]
    assert [two.devices[name].stored_samples for name in EVERYBODY] == [3, 4]
    assert two.devices[FIRST].answered_seconds is None


def open_round(ledger: HandMadeLedger, number: int, stage: int, phase: str = TRAIN) -> None:
    offered = offer(f"weights {number}")
    ledger.add(
        RoundOpened(
            number=number,
            phase=phase,
            stage=stage,
            round_of_stage=1,
            rounds_of_stage=2,
            cohort=EVERYBODY,
            weights=offered,
            weights_class_names=(),
            class_names=(ANT,),
            seed=1,
            deadline_seconds=1.0,
        )
    )


def look(ledger: HandMadeLedger, number: int | None, stage: int, device: DeviceId) -> None:
    seen = Observation(entropy=0.5, images=7, transition=number == 2)
    ledger.add(
        NothingReported(nothing=Nothing(stage=stage, round=number, observation=seen)), device
    )


def looks(made: Recorder, ledger: HandMadeLedger, number: int) -> list[tuple[int, str, bool]]:
    record = made.record(ledger.state, THREE.stages[number - 1], measured())
    return [(item.round, item.device, item.transition) for item in record.novelty_checks]


def test_looks_of_a_stage_are_told_by_its_rounds_of_training_and_by_device(ledger: HandMadeLedger):
    made = recorder(ledger, THREE)
    open_stage(ledger, 1, ANT)
    open_round(ledger, 1, 1, "fisher")
    for number in (2, 3):
        open_round(ledger, number, 1)
        look(ledger, number, 1, SECOND)
        look(ledger, number, 1, FIRST)
    look(ledger, None, 1, FIRST)
    ledger.add(NothingReported(nothing=Nothing(stage=1, round=3)), SECOND)
    end_stage(ledger, 1)
    open_stage(ledger, 2, BEE)
    look(ledger, 3, 1, FIRST)  # late, to a round of the stage before
    open_round(ledger, 4, 2)
    look(ledger, 4, 2, FIRST)
    end_stage(ledger, 2)
    assert looks(made, ledger, 1) == [
        (1, FIRST, True),
        (1, SECOND, True),
        (2, FIRST, False),
        (2, SECOND, False),
    ]
    assert looks(made, ledger, 2) == [(1, FIRST, False)]


def test_bytes_and_images_are_told_by_the_kind_of_the_payload(ledger: HandMadeLedger):
    open_stage(ledger, 1, ANT)
    contribute(ledger, 1, FIRST, {ANT: 2})
    answer(ledger, 1, FIRST, samples=5, kept=0)
    answer(ledger, 1, FIRST, samples=8, kept=0, kind="images")
    open_round(ledger, 1, 1)
    end_stage(ledger, 1)
    record = recorder(ledger, THREE).record(ledger.state, THREE.stages[0], measured())
    first, second = record.devices[FIRST], record.devices[SECOND]
    assert first.sent == {"statistics": 1000, "weights": 100, "images": 100}
    assert (first.shared_images, second.shared_images) == (8, 0)
    assert (second.sent, second.received) == ({}, {"weights": 5000})


def test_a_run_that_is_gone_on_with_records_the_same(ledger: HandMadeLedger):
    learn_by_reports(ledger)
    state, stages = ledger.state, PLAN.stages
    made = recorder(ledger)
    both = [made.record(state, stage, measured()) for stage in stages]
    assert recorder(ledger).record(state, stages[1], measured()) == both[1]
    assert [both[0].devices[name].counted_samples for name in EVERYBODY] == [2, 1]


def test_a_stage_without_a_model_cannot_be_recorded(ledger: HandMadeLedger):
    open_stage(ledger, 1, ANT)
    with pytest.raises(EngineError, match="stage 1: the ledger has no model"):
        recorder(ledger).record(ledger.state, PLAN.stages[0], measured())
