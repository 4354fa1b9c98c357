"""Looks of devices, taken from a ledger's entries in order."""

from __future__ import annotations

from typing import Any

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.topics.contributions.entries import NothingReported
from fleetledger.coordinator.topics.rounds.entries import RoundOpened
from fleetledger.schemas.rounds import Observation
from fleetledger.schemas.values import ClassName, DeviceId
from fleetledger.simulator.engines.novelty_checks import NoveltyLog
from fleetledger.simulator.records import NoveltyCheckRecord
from tests.schemas.examples import OFFER

ONE, TWO = DeviceId("device-1"), DeviceId("device-2")


def opened(number: int, stage: int, **changes: Any) -> RoundOpened:
    values: dict[str, Any] = {
        "number": number,
        "stage": stage,
        "round_of_stage": 1,
        "rounds_of_stage": 2,
        "cohort": (ONE,),
        "weights": OFFER,
        "weights_class_names": (),
        "class_names": (ClassName("cat"),),
        "seed": 1,
        "deadline_seconds": 1.0,
    }
    return RoundOpened(**(values | changes))


def saw(number: int | None, entropy: float, *, transition: bool = False) -> NothingReported:
    observation = Observation(entropy=entropy, images=7, transition=transition)
    return NothingReported(stage=1, round=number, observation=observation)


def look(
    device: DeviceId, place: int, entropy: float, *, transition: bool = False
) -> NoveltyCheckRecord:
    return NoveltyCheckRecord(
        device=device, round=place, entropy=entropy, images=7, transition=transition
    )


def log(*told: tuple[EntryBody, DeviceId | None]) -> NoveltyLog:
    made = NoveltyLog()
    for body, device in told:
        made.apply(body, device)
    return made


def test_rounds_are_counted_in_their_stage() -> None:
    made = log(
        (opened(4, 1), None),
        (saw(4, 0.5, transition=True), ONE),
        (opened(5, 1), None),
        (saw(5, 0.25), ONE),
        (opened(6, 2), None),
        (saw(6, 1.5), TWO),
    )
    assert made.of((1,)) == (look(ONE, 1, 0.5, transition=True), look(ONE, 2, 0.25))
    assert made.of((2,)) == (look(TWO, 1, 1.5),)
    assert len(made.of((1, 2))) == 3


def test_a_look_belongs_to_the_stage_of_its_round_however_late_it_comes() -> None:
    made = log((opened(1, 1), None), (opened(2, 2), None), (saw(1, 0.5), TWO))
    assert made.of((1,)) == (look(TWO, 1, 0.5),)
    assert made.of((2,)) == ()


def test_rounds_of_another_phase_do_not_count() -> None:
    made = log((opened(1, 1, phase="fisher"), None), (opened(2, 1), None), (saw(2, 0.5), ONE))
    assert made.of((1,)) == (look(ONE, 1, 0.5),)


def test_who_has_no_data_and_rounds_before_the_log_tell_nothing() -> None:
    nothing = NothingReported(stage=1, round=1)
    made = log((opened(1, 1), None), (nothing, ONE), (saw(9, 0.5), ONE), (saw(None, 0.5), ONE))
    assert made.of((1,)) == ()
