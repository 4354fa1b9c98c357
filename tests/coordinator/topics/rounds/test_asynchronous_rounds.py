"""Asynchronous rounds: answers count in the ledger's order, with the age of their weights."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.core import Core
from fleetledger.coordinator.core.requests import PruneBlobs
from fleetledger.coordinator.core.rules import AsynchronousRules
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.core.work import AverageRound, RoundNotAveraged
from fleetledger.coordinator.replay.recipes import AveragedRecipe
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.rounds.buffers import buffering_of
from fleetledger.coordinator.topics.rounds.entries import (
    AnswersPruned,
    RoundClosed,
    RoundFailed,
    RoundOpened,
)
from fleetledger.coordinator.topics.stages.commands import CloseStage
from fleetledger.schemas.receipts import Accepted
from fleetledger.schemas.values import DeviceId, Digest
from tests.coordinator.core.harness import can_learn, offer
from tests.coordinator.core.round_bench import ABLE, RoundBench
from tests.coordinator.replay.test_recipes import made

BUFFER = {"buffer": 2, "staleness": "polynomial", "max_staleness": 2}


def bench(devices: int = 5, cohort: int | float = 3, **rules: Any) -> RoundBench:
    terms = BUFFER | {n: rules.pop(n) for n in AsynchronousRules.model_fields if n in rules}
    found = RoundBench(devices, cohort=cohort, per_stage=9, asynchronous=terms, **rules)
    found.lead()
    return found


def training(of: RoundBench) -> dict[str, int]:
    """Devices that have an order, with the round that asked them."""
    return {str(n): order.number for n, order in of.core.state.rounds.standing.items()}


def closed(of: RoundBench, number: int) -> RoundClosed:
    (found,) = (b for b in of.told(RoundClosed) if getattr(b, "number", 0) == number)
    assert isinstance(found, RoundClosed)
    return found


def fill(of: RoundBench, *devices: str) -> AverageRound:
    """Let devices answer what they were asked; return what is averaged then."""
    for device in devices:
        of.answer(device, training(of)[device], f"{device} {training(of)[device]}")
    of.wait(0)
    request = of.asked_for(AverageRound)
    assert isinstance(request, AverageRound)
    return request


def version(of: RoundBench, *devices: str) -> AverageRound:
    """Let devices fill a buffer, and the next round open."""
    request = fill(of, *devices)
    of.average(request)
    of.wait(0)
    return request


def test_so_many_devices_train_at_the_same_time_and_another_follows_each_answer() -> None:
    of = bench()
    first = set(training(of))
    assert len(first) == 3
    one = sorted(first)[0]
    requests_before = of.core.state.size
    of.answer(one)
    orders = of.orders(of.wait(0))
    (asked,) = orders
    assert asked not in first
    assert orders[asked].number == 1
    assert set(training(of)) == (first - {one}) | {asked}
    assert of.core.state.size == requests_before + 2, "an answer, and one device more"


def test_the_buffers_last_answer_closes_the_round_and_the_others_go_on() -> None:
    of = bench()
    slow, *quick = sorted(training(of))
    version(of, *quick)
    assert closed(of, 1).reason == "its 2 answers"
    assert closed(of, 1).missing == (), "nobody is told to stop"
    assert training(of)[slow] == 1, "it trains on"
    assert of.core.state.rounds.current is not None
    assert of.core.state.rounds.current.opened.number == 2


def test_an_answer_counts_where_it_comes_with_its_age() -> None:
    of = bench()
    slow, *quick = sorted(training(of))
    version(of, *quick)
    version(of, *[device for device in training(of) if device != slow][:2])
    other = next(device for device in training(of) if device != slow)
    request = fill(of, slow, other)
    assert request.opened.number == 3
    ages = {item.began: item.staleness for item in request.inputs}
    assert ages[1] == 2
    assert [opened.number for opened in request.older] == [1]
    late = of.told(ContributionAccepted)
    assert not any(body.late for body in late)  # type: ignore[attr-defined]
    assert list(closed(of, 3).staleness.values()) == [2]
    assert "began from older weights, by 2 versions at most" in closed(of, 3).say(None)  # type: ignore[arg-type]


def test_a_device_that_is_too_far_behind_gets_the_newest_weights() -> None:
    of = bench(max_staleness=1)
    slow, *quick = sorted(training(of))
    version(of, *quick)
    request = fill(of, *[device for device in training(of) if device != slow][:2])
    assert closed(of, 2).missing == (slow,)
    assert slow not in training(of)
    of.average(request)
    orders = of.orders(of.wait(0))
    assert slow in training(of) or len(orders) >= 1
    receipt = of.answer(slow, 1, "too old")
    assert isinstance(receipt.answer, Accepted)
    assert of.told(ContributionAccepted)[-1].late  # type: ignore[attr-defined]


def test_what_comes_while_a_mean_is_made_counts_in_the_next_round() -> None:
    of = bench()
    slow, *quick = sorted(training(of))
    request = fill(of, *quick)
    of.answer(slow, 1, "meanwhile")
    assert list(of.core.state.rounds.waiting) == [DeviceId(slow)]
    of.average(request)
    of.wait(0)
    current = of.core.state.rounds.current
    assert current is not None
    assert list(current.answers) == [DeviceId(slow)]
    assert slow not in training(of), "one answer of a device in a round"


def test_a_buffer_holds_no_more_than_it_should_in_the_order_of_the_ledger() -> None:
    of = bench(cohort=5)
    for device in ("dev-4", "dev-2", "dev-5"):
        of.answer(device, 1)
    of.wait(0)
    assert closed(of, 1).counted == tuple(
        index
        for index, (body, device, _) in enumerate(of.entries)
        if isinstance(body, ContributionAccepted) and device in ("dev-4", "dev-2")
    )
    assert list(of.core.state.rounds.waiting) == [DeviceId("dev-5")]


def test_answers_that_waited_for_too_long_are_left_out_and_deleted() -> None:
    of = bench(devices=4, cohort=4, buffer=1, max_staleness=1)
    for device in of.devices:
        of.answer(device, 1)
    for _ in range(10):
        for request in of.wait(0):
            if isinstance(request, AverageRound):
                of.average(request)
    (left,) = [b.left_out for b in of.told(RoundClosed) if b.left_out]  # type: ignore[attr-defined]
    assert len(left) == 2
    assert not of.core.state.rounds.waiting


def test_the_deadline_takes_what_came_and_the_devices_train_on() -> None:
    of = bench()
    one, *others = sorted(training(of))
    of.answer(one)
    of.wait(0)
    of.wait(101)
    assert closed(of, 1).reason == "deadline of 100 s"
    assert len(closed(of, 1).counted) == 1
    assert set(others) <= set(training(of))


def test_devices_that_hang_keep_their_order_and_not_their_place() -> None:
    of = bench(devices=6, cohort=2)
    hanging = set(training(of))
    of.wait(101)
    assert closed(of, 1).counted == ()
    of.wait(6)
    assert len(set(training(of)) - hanging) == 2, "others train in their place"
    assert hanging <= set(training(of))


def test_a_device_that_left_gives_its_place_to_another() -> None:
    of = bench()
    gone = sorted(training(of))[0]
    of.core.live.device(DeviceId(gone)).leave(of.now_ns)
    of.wait(0)
    assert len(training(of)) == 4
    assert gone in training(of), "its order waits for it"


def test_where_everybody_has_answered_a_round_does_not_wait_for_more() -> None:
    of = bench(devices=2, cohort=5, buffer=10)
    of.answer("dev-1")
    of.decline("dev-2")
    of.wait(0)
    assert closed(of, 1).reason == "everybody answered"
    assert len(closed(of, 1).counted) == 1
    assert closed(of, 1).nothing == ("dev-2",)


def test_a_device_that_cannot_train_makes_room_and_says_why() -> None:
    of = bench()
    broken = sorted(training(of))[0]
    of.decline(broken, 1, "training: no memory")
    of.wait(0)
    assert broken not in training(of)
    assert len(training(of)) == 3
    current = of.core.state.rounds.current
    assert current is not None
    assert current.unable == {DeviceId(broken): "training: no memory"}


def test_the_last_round_of_a_stage_and_its_closing_end_all_orders() -> None:
    of = RoundBench(5, cohort=3, per_stage=1, asynchronous=BUFFER)
    of.lead()
    slow, *quick = sorted(training(of))
    fill(of, *quick)
    assert slow in closed(of, 1).missing
    assert training(of) == {}
    of = bench()
    asked = set(training(of))
    of.command(CloseStage())
    of.wait(0)
    assert set(closed(of, 1).missing) == asked


def test_the_weights_that_orders_began_from_are_kept() -> None:
    of = bench(devices=6, cohort=4, keep_weights=1, max_staleness=5)
    pruned: set[Digest] = set()
    slow = None
    for number in range(1, 6):
        if number == 2:
            slow = next(device for device, asked in training(of).items() if asked == 2)
        quick = [device for device in training(of) if device != slow][:2]
        request = fill(of, *quick)
        for told in (of.average(request), of.wait(0)):
            pruned |= {d for r in told if isinstance(r, PruneBlobs) for d in r.digests}
    assert slow is not None
    assert training(of)[slow] == 2
    assert offer("weights 1").digest not in pruned, "a device still trains from these"
    assert offer("weights 2").digest in pruned


def test_an_answers_bytes_go_when_the_round_that_counts_it_is_done() -> None:
    of = bench()
    slow, *quick = sorted(training(of))
    version(of, *quick)
    request = fill(of, slow, next(device for device in training(of) if device != slow))
    told = of.average(request)
    gone = {d for r in told if isinstance(r, PruneBlobs) for d in r.digests}
    assert gone == {item.payload for item in request.inputs}
    assert of.told(AnswersPruned)[-1] == AnswersPruned(number=2, began=(1,))


def test_a_crash_between_any_two_entries_leaves_the_same_state() -> None:
    of = bench()
    slow, *quick = sorted(training(of))
    request = fill(of, *quick)
    of.answer(slow, 1, "meanwhile")
    of.average(request)
    of.wait(0)
    version(of, *[device for device in training(of) if device != slow][:1])
    again = Core(of.rules, can_learn=can_learn)
    for body, device, time_ns in of.entries:
        read = read_entry(body.kind, body.model_dump(mode="json"))
        again.state.apply(read, device, time_ns)
    assert again.state.rounds == of.core.state.rounds


def story(crash_after: int | None) -> tuple[list[RoundClosed], list[RoundOpened]]:
    """What becomes of twelve answers, with a coordinator that dies once, after some steps."""
    of, steps, chance = bench(gather_seconds=0), 0, Random(7)
    for _ in range(12):
        for _ in range(6):  # until nothing more comes of an answer, whatever died
            requests = of.wait(0)
            steps += 1
            if steps == crash_after:
                before = of.core.live
                of.restart()
                for device in of.devices:
                    boot = before.device(DeviceId(device)).boot
                    assert boot is not None
                    of.core.live.device(DeviceId(device)).here(boot, of.core.state.size)
                continue
            for request in requests:
                if isinstance(request, AverageRound):
                    of.average(request)
        device = chance.choice(sorted(training(of)))
        number = training(of)[device]
        of.answer(device, number, f"{device} {number}")
    closed = [body for body in of.told(RoundClosed) if isinstance(body, RoundClosed)]
    return closed, [body for body in of.told(RoundOpened) if isinstance(body, RoundOpened)]


@pytest.mark.parametrize("crash_after", range(1, 72, 2))
def test_a_coordinator_that_dies_anywhere_comes_to_the_same_rounds(crash_after: int) -> None:
    undisturbed = story(None)
    assert len(undisturbed[0]) >= 5
    assert story(crash_after) == undisturbed


def test_a_mean_that_failed_keeps_orders_and_begins_anew() -> None:
    of = bench()
    slow, *quick = sorted(training(of))
    request = fill(of, *quick)
    of.handle(RoundNotAveraged(request.opened.number, "broken"))
    assert of.told(RoundFailed)
    of.wait(6)
    assert training(of)[slow] == 1
    current = of.core.state.rounds.current
    assert current is not None
    assert current.opened.number == 2
    assert current.opened.weights == request.opened.weights


def test_a_recipe_is_the_request_that_the_maker_was_given() -> None:
    of = bench()
    slow, *quick = sorted(training(of))
    requests = [version(of, *quick)]
    requests.append(version(of, slow, next(d for d in training(of) if d != slow)))
    found = made(of)
    assert [recipe.request for recipe in found if isinstance(recipe, AveragedRecipe)] == requests


@pytest.mark.parametrize(
    ("rules", "weights"),
    [
        ({"staleness": "constant"}, (256, 256, 256)),
        ({"staleness": "polynomial"}, (256, 181, 148)),
        ({"staleness": "hinge", "staleness_a": 10.0, "staleness_b": 1}, (256, 256, 23)),
        ({"staleness": "polynomial", "staleness_a": 100.0}, (256, 1, 1)),
    ],
)
def test_staleness_weights_are_steps_of_a_grid(
    rules: dict[str, Any], weights: tuple[int, ...]
) -> None:
    terms = buffering_of(AsynchronousRules(max_staleness=2, **rules))
    assert terms.staleness_weights == weights


def test_a_share_above_one_is_no_mixing() -> None:
    with pytest.raises(ValueError, match=r"server_rate: 1\.5 with combine = 'mixing'"):
        AsynchronousRules(combine="mixing", server_rate=1.5)


def test_rounds_that_are_not_asynchronous_say_nothing_of_it() -> None:
    of = RoundBench(2)
    of.lead()
    (opened,) = of.told(RoundOpened)
    assert "buffering" not in opened.model_dump()


def test_a_stage_that_goes_on_with_other_settings_ends_the_orders() -> None:
    of = bench()
    slow, *quick = sorted(training(of))
    request = fill(of, *quick)
    of.rules = of.rules.model_copy(
        update={"rounds": of.rules.rounds.model_copy(update={"asynchronous": None})}
    )
    of.restart()
    for device in of.devices:
        of.born(device, capabilities=ABLE)
    of.handle(inputs.Tick())
    of.average(request)
    of.wait(20)
    assert training(of) == {}
    of.answer(slow, 1, "of the former way")
    assert of.told(ContributionAccepted)[-1].late  # type: ignore[attr-defined]
