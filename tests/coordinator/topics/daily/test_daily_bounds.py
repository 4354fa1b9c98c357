"""What one device may add to the ledger in a day, and what is answered and not recorded."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.core.requests import SendToDevice, TakePayload, TellOperator
from fleetledger.coordinator.core.rules import DailyRules, ModelRules, Rules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.work import SolveHead
from fleetledger.coordinator.topics.daily.state import DAY_NS
from fleetledger.coordinator.topics.devices.entries import DeviceProblem
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated, DeviceModelStatus
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.schemas.contributions import Contribution, Nothing
from fleetledger.schemas.models import ModelStatus
from fleetledger.schemas.receipts import Accepted, Later, Receipt, Refused
from fleetledger.schemas.reports import Evaluation, Problem, Transition
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from tests.coordinator.core.harness import Bench, contribution, names, offer, receipt

FEW = DailyRules(problems=3, contributions=2, transitions=2, payload_mib=1, body_mib=1)
DEVICE = DeviceId("dev-1")
HALF_A_DAY = 43_200.0


def bench(**daily: int) -> Bench:
    rules = FEW.model_copy(update=daily)
    made = Bench(Rules(daily=rules, models=ModelRules(automatic=False)))
    made.begin("dev-1", "dev-2")
    made.born("dev-1")
    made.wait((DAY_NS - made.now_ns % DAY_NS) / 1e9)
    return made


def problems(made: Bench, count: int, device: str = "dev-1") -> int:
    """Say so many problems; return how many were recorded."""
    before = recorded(made, DeviceProblem)
    for number in range(count):
        made.message(device, Problem(about="image", text=f"image {number} is broken"))
    return recorded(made, DeviceProblem) - before


def recorded(made: Bench, kind: type) -> int:
    return sum(isinstance(body, kind) for body, _, _ in made.entries)


def test_a_device_adds_so_many_of_a_kind_in_a_day_and_others_are_untouched() -> None:
    made = bench()
    assert problems(made, 10) == 3
    assert problems(made, 2, "dev-2") == 2
    made.wait(2 * HALF_A_DAY)
    assert problems(made, 1) == 1


def test_the_operator_is_told_once_a_day_whose_it_is() -> None:
    made = bench()
    told = []
    for number in range(6):
        sent = made.message("dev-1", Problem(about="image", text=f"{number}"))
        told += [item.text for item in sent if isinstance(item, TellOperator)]
    assert len(told) == 1
    assert "device dev-1 today: more than 3 problems of this device" in told[0]
    assert "[daily] problems" in told[0]


def test_what_waits_for_a_receipt_is_told_later_and_when() -> None:
    made = bench()
    made.wait(2 * HALF_A_DAY - 1000)
    for number in range(2):
        assert isinstance(receipt(made.message("dev-1", transition(number))).answer, Accepted)
    answer = receipt(made.message("dev-1", transition(2))).answer
    assert isinstance(answer, Later)
    assert answer.after_seconds == pytest.approx(1000, abs=1)
    made.wait(1001)
    assert isinstance(receipt(made.message("dev-1", transition(2))).answer, Accepted)


def transition(number: int, stage: int = 1) -> Transition:
    return Transition(stage=stage, number=number, why="class name", classes={ClassName("eel"): 3})


def test_payloads_are_bounded_before_they_are_fetched() -> None:
    made = bench()
    assert isinstance(made.give("dev-1", large("a", 0, 600_000)).answer, Accepted)
    asked = made.message("dev-1", large("b", 1, 600_000))
    assert not [item for item in asked if isinstance(item, TakePayload)]
    answer = receipt(asked).answer
    assert isinstance(answer, Later)
    assert "1 MiB of payloads" in answer.reason


def test_a_part_a_day_is_taken_in_however_large() -> None:
    made = bench()
    assert isinstance(made.give("dev-1", large("a", 0, 5 << 20)).answer, Accepted)


def large(text: str, part: int, size: int) -> Contribution:
    """A contribution whose payload of so many bytes is offered."""
    body = contribution(text, part=part)
    offered = offer(text).model_copy(update={"digest": body.payload, "size": size})
    return body.model_copy(update={"payload_bytes": size, "offer": offered})


def test_parts_are_bounded_by_number() -> None:
    made = bench()
    for part in range(2):
        assert isinstance(made.give("dev-1", contribution(f"{part}", part=part)).answer, Accepted)
    answer = receipt(made.message("dev-1", contribution("2", part=2))).answer
    assert isinstance(answer, Later)
    assert "2 contributions" in answer.reason


def test_bytes_of_entries_are_bounded_whatever_their_number() -> None:
    made = bench(transitions=1000)
    many = {ClassName(f"a class with a long name {n:>60}"): 1 for n in range(1000)}
    answers = [
        receipt(made.message("dev-1", transition(n).model_copy(update={"classes": many}))).answer
        for n in range(14)
    ]
    assert isinstance(answers[0], Accepted)
    assert isinstance(answers[-1], Later)
    assert "1 MiB of entries" in answers[-1].reason
    assert made.core.state.daily.of(DEVICE, made.now_ns).body_bytes <= 1 << 20


def test_what_is_counted_follows_from_the_entries() -> None:
    made = bench()
    problems(made, 2)
    made.give("dev-1", contribution("a"))
    again = State()
    for body, device, time_ns in made.entries:
        again.apply(body, device, time_ns)
    assert again.daily == made.core.state.daily
    today = again.daily.of(DEVICE, made.now_ns)
    assert today.entries == {"problems": 2, "contributions": 1}


def test_what_is_said_of_stages_that_are_over_or_never_were_is_not_recorded() -> None:
    made = bench(transitions=100)
    for stage in ("eel", "fox"):
        made.command(OpenStage(class_names=names(stage)))
    size = made.core.state.size
    for body in (
        transition(0, stage=9),
        transition(0, stage=1),
        Nothing(stage=9),
        Nothing(stage=1),
    ):
        answer = receipt(made.message("dev-1", body)).answer
        assert isinstance(answer, Refused)
        assert "nothing was recorded" in answer.reason
    assert made.core.state.size == size
    assert isinstance(receipt(made.message("dev-1", transition(1, stage=2))).answer, Accepted)


def test_what_is_said_of_models_that_there_are_not_is_not_recorded() -> None:
    made = bench()
    made.give("dev-1", contribution("a"))
    made.give("dev-2", contribution("b"))
    asked = [item for _ in range(3) for item in made.wait(31)]
    made.make_model(next(item for item in asked if isinstance(item, SolveHead)))
    size = made.core.state.size
    strange = Digest.of(b"strange")
    evaluation = Evaluation(
        version=7, manifest=strange, results={}, provider="cpu", seconds=1, bytes_up=0,
        bytes_down=0,
    )  # fmt: skip
    status = ModelStatus(version=7, manifest=strange, state="active")
    for body in (
        evaluation,
        status,
        evaluation.model_copy(update={"version": 1}),
        status.model_copy(update={"version": 1}),
    ):
        (told,) = made.message("dev-1", body)
        assert isinstance(told, SendToDevice)
        assert not isinstance(told.body, Receipt)
        assert isinstance(told.body, Problem)
        assert "nothing was recorded" in told.body.text
    assert made.core.state.size == size
    assert not recorded(made, DeviceEvaluated)
    assert not recorded(made, DeviceModelStatus)
