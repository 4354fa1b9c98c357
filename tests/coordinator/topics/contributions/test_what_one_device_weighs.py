"""What one device weighs: the same payload once, no more than its share, and it is named."""

from __future__ import annotations

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.requests import TellOperator
from fleetledger.coordinator.core.rules import BoundRules, ModelRules, Rules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.work import AverageRound, SolveHead
from fleetledger.coordinator.topics.contributions.entries import ContributionsLeftOut
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.rounds.entries import RoundClosed
from fleetledger.schemas.contributions import PartKey, Withdrawal
from fleetledger.schemas.receipts import Accepted, Refused
from fleetledger.schemas.rounds import RoundAnswer
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import Bench, contribution, receipt
from tests.coordinator.core.round_bench import RoundBench

EAGER = ModelRules(solve_every_seconds=0)


def bench(*devices: str, **bounds: float) -> Bench:
    made = Bench(Rules(bounds=BoundRules(**bounds), models=EAGER))
    made.begin(*devices)
    return made


def give(made: Bench, device: str, part: int, **samples: int):
    body = contribution(f"{device} {part} {samples}", part=part, samples=samples or None)
    return made.give(device, body).answer


def recipes(made: Bench) -> tuple[list[int], list[str]]:
    """Return the inputs of the next model, and what the operator is told."""
    made.core.live.making_model = False
    requests = [item for _ in range(4) for item in made.wait(60)]
    asked = [item for item in requests if isinstance(item, SolveHead)]
    inputs = list(made.core.state.contributions.inputs()) if asked else []
    return inputs, [item.text for item in requests if isinstance(item, TellOperator)]


def left_out(made: Bench) -> list[ContributionsLeftOut]:
    return [body for body, _, _ in made.entries if isinstance(body, ContributionsLeftOut)]


def test_the_same_payload_under_several_parts_counts_once_and_the_device_is_named() -> None:
    made = bench("a", "b")
    for part in (7, 0, 3):
        assert isinstance(made.give("a", contribution("x", part=part)).answer, Accepted)
    assert isinstance(made.give("b", contribution("x")).answer, Accepted), "another device's own"
    inputs, told = recipes(made)
    counted = {
        (
            made.core.state.contributions.counted[i].device,
            made.core.state.contributions.counted[i].key,
        )
        for i in inputs
    }
    assert counted == {("a", PartKey(stage=1, part=0)), ("b", PartKey(stage=1, part=0))}
    assert "device a gave the same payload under several numbers: 2 parts of it left out" in told[0]


def test_a_payload_counts_under_another_part_once_the_first_has_changed() -> None:
    """As when a part of an earlier installation came late, and is replaced."""
    made = bench("a")
    made.give("a", contribution("x", part=0))
    made.give("a", contribution("x", part=1))
    assert len(recipes(made)[0]) == 1
    made.give("a", contribution("y", part=0, revision=1))
    assert len(recipes(made)[0]) == 2
    assert not made.core.state.contributions.counted.left_out
    assert not made.core.state.contributions.bounded


def test_a_payload_that_was_taken_out_counts_under_another_part() -> None:
    made = bench("a")
    made.give("a", contribution("x", part=0))
    gone = Withdrawal(key=PartKey(stage=1, part=0), revision=1, reason="moved")
    assert isinstance(receipt(made.message("a", gone)).answer, Accepted)
    made.give("a", contribution("x", part=1))
    assert len(recipes(made)[0]) == 1


def test_a_payload_that_came_twice_is_not_counted_against_the_most_samples() -> None:
    made = bench("a", max_samples_per_class=100)
    for part in (0, 1):
        assert isinstance(
            made.give("a", contribution("x", part=part, samples={"cat": 60})).answer, Accepted
        )


def test_more_samples_of_a_class_than_a_device_may_give_are_refused() -> None:
    made = bench("a", max_samples_per_class=100)
    assert isinstance(give(made, "a", 0, cat=60, dog=10), Accepted)
    refused = give(made, "a", 1, cat=41)
    assert isinstance(refused, Refused)
    assert "101 of class 'cat' of this device in stage 1 exceed 100" in refused.reason
    assert isinstance(give(made, "a", 2, cat=40, dog=90), Accepted)


def test_a_revision_of_a_part_is_not_counted_beside_the_part_itself() -> None:
    made = bench("a", max_samples_per_class=100)
    give(made, "a", 0, cat=60)
    body = contribution("again", part=0, revision=1, samples={"cat": 100})
    assert isinstance(made.give("a", body).answer, Accepted)


def test_parts_beyond_a_devices_share_are_left_out_and_it_is_named() -> None:
    made = bench("a", "b", "c")
    for part in range(20):
        give(made, "c", part, cat=30)
    give(made, "a", 0, cat=40)
    give(made, "b", 0, cat=40)
    inputs, told = recipes(made)
    (entry,) = left_out(made)
    assert len(entry.left_out) == 19
    assert len(inputs) == 3
    assert not set(inputs) & set(entry.left_out)
    assert told == list(entry.devices.values())
    assert "device c gave 600 of 680 samples of class cat in stage 1" in told[0]


def test_they_count_when_others_have_given_more() -> None:
    made = bench("a", "b", "c")
    for part in range(4):
        give(made, "c", part, cat=30)
    give(made, "a", 0, cat=10)
    give(made, "b", 0, cat=10)
    assert len(recipes(made)[0]) == 3
    give(made, "a", 1, cat=100)
    give(made, "b", 1, cat=100)
    recipes(made)
    out, back = left_out(made)
    assert (out.left_out, back.left_out) == (back.again, ())
    assert back.devices == {"c": ""}
    assert len(made.core.state.contributions.inputs()) == 8


def test_a_small_fleet_and_a_class_that_few_give_are_bounded_by_nothing() -> None:
    for devices in (("a",), ("a", "b")):
        made = bench(*devices)
        for part in range(5):
            give(made, "a", part, cat=1000)
        for other in devices[1:]:
            give(made, other, 0, cat=1)
        assert len(recipes(made)[0]) == 4 + len(devices)
    made = bench("a", "b", "c")
    for part in range(5):
        give(made, "a", part, dog=1000)
    for other in ("b", "c"):
        give(made, other, 0, cat=3)
    assert len(recipes(made)[0]) == 7
    assert left_out(made) == []


def test_the_first_part_of_a_device_always_counts() -> None:
    made = bench("a", "b", "c")
    give(made, "a", 0, cat=500)
    give(made, "b", 0, cat=1)
    give(made, "c", 0, cat=1)
    assert len(recipes(made)[0]) == 3


def test_what_is_left_out_does_not_depend_on_the_order_of_arrival() -> None:
    given = [("c", part, 30) for part in range(8)] + [("a", 0, 40), ("b", 0, 40)]
    found = []
    for order in (given, given[::-1]):
        made = bench("a", "b", "c")
        for device, part, samples in order:
            give(made, device, part, cat=samples)
        recipes(made)
        state = made.core.state
        found.append(
            {
                (state.contributions.counted[i].device, state.contributions.counted[i].key)
                for i in state.contributions.counted.left_out
            }
        )
    assert found[0] == found[1] != set()


def test_the_ledger_alone_says_what_counts() -> None:
    """Replayed under any settings, the sum is of the same contributions."""
    made = bench("a", "b", "c")
    for part in range(20):
        give(made, "c", part, cat=30)
    give(made, "a", 0, cat=40)
    give(made, "b", 0, cat=40)
    recipes(made)
    again = State()
    for body, device, time_ns in made.entries:
        again.apply(read(body), device, time_ns)
    assert again.contributions.inputs() == made.core.state.contributions.inputs()
    made.command(AdmitDevice(device=DeviceId("d")))


def answer(made: RoundBench, device: str, samples: int) -> None:
    said = RoundAnswer(number=1, samples=samples, steps=2, seconds=0.5)
    made.answer(device, samples={"cat": samples}, round=said)


def read(body: EntryBody) -> EntryBody:
    return type(body).model_validate(body.model_dump(mode="json"))


def test_an_answer_to_a_round_counts_as_its_share_at_most() -> None:
    made = RoundBench()
    made.lead()
    for device, samples in (("dev-1", 10), ("dev-2", 20), ("dev-3", 9000)):
        answer(made, device, samples)
    requests = [item for _ in range(3) for item in made.wait(1)]
    (asked,) = [item for item in requests if isinstance(item, AverageRound)]
    assert sorted(item.samples for item in asked.inputs) == [10, 20, 30]
    (closed,) = [body for body, _, _ in made.entries if isinstance(body, RoundClosed)]
    assert list(closed.weights.values()) == [30]
    assert read(closed) == closed
    told = [item.text for item in requests if isinstance(item, TellOperator)]
    assert "dev-3 answered round 1 with 9,000 samples" in told[0]


def test_answers_of_two_devices_count_as_they_say() -> None:
    made = RoundBench(devices=2)
    made.lead()
    answer(made, "dev-1", 1)
    answer(made, "dev-2", 9000)
    requests = [item for _ in range(3) for item in made.wait(1)]
    (asked,) = [item for item in requests if isinstance(item, AverageRound)]
    assert sorted(item.samples for item in asked.inputs) == [1, 9000]
