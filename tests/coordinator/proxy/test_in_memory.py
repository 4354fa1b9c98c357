"""A real proxy with its store and torch, among scripted devices and a scripted coordinator."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetledger.coordinator.errors import ProxyError
from fleetledger.schemas.proxy import Scored
from fleetledger.schemas.receipts import Accepted, Later, Refused
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.values import Digest
from tests.coordinator.proxy.making import ONE, OTHER, Device, World, payload, weights

pytestmark = pytest.mark.torch

MakeWorld = Callable[..., World]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeWorld]:
    made: list[World] = []

    def world(**limits: float) -> World:
        made.append(World(tmp_path / f"proxy-{len(made)}", **limits))
        return made[-1]

    yield world
    for item in made:
        item.close()


def test_gradients_are_scored_by_and_forgotten_with_who_sent_them(make: MakeWorld) -> None:
    world = make()
    world.start()
    one, other = payload(0, seed=1), payload(1, 0, seed=2)
    world.devices[ONE].give(one)
    world.devices[OTHER].give(other)
    world.for_a_while()
    assert not world.devices[ONE].receipts  # nobody knows yet what they should look like
    file = weights()
    asked = world.ask(file)
    world.until(lambda: world.scores)
    (told,) = world.scores
    assert (told.action, told.gradients, told.images, told.shifted) == (10, 3, 3, True)
    assert told.newest is not None
    assert told.newest.weights == told.current == Digest.of(file)
    for name in (ONE, OTHER):
        (receipt,) = world.devices[name].receipts
        assert receipt.about == "gradients"
        assert isinstance(receipt.answer, Accepted)
    world.thank(asked)
    world.for_a_while()
    assert len(world.scores) == 1
    for path in world.home.glob("proxy.db*"):
        left = path.read_bytes()
        assert ONE.encode() not in left
        assert OTHER.encode() not in left
        assert one[200:400] not in left
    assert not list((world.home / "incoming").iterdir())


def test_large_gradients_come_in_blocks(make: MakeWorld) -> None:
    world = make()
    world.start()
    world.ask(weights())
    world.until(lambda: world.scores)
    large = payload(0, 1, seed=3, sets=12)
    body = world.devices[ONE].give(large)
    assert body.offer is not None
    world.until(lambda: world.devices[ONE].receipts)
    (receipt,) = world.devices[ONE].receipts
    assert isinstance(receipt.answer, Accepted)
    world.ask(weights(2), action=20, number=2)
    world.until(lambda: len(world.scores) == 2)
    assert world.scores[-1].gradients == 24


def test_a_repeat_gets_the_same_receipt_and_counts_once(make: MakeWorld) -> None:
    world = make()
    world.start()
    device, data = world.devices[ONE], payload(0)
    device.give(data)
    asked = world.ask(weights())
    world.until(lambda: world.scores)
    world.thank(asked)
    device.give(data)
    world.until(lambda: len(device.receipts) == 2)
    assert device.receipts[0] == device.receipts[1]
    world.ask(weights(2), action=20, number=2)
    world.until(lambda: len(world.scores) == 2)
    assert (world.scores[-1].gradients, world.scores[-1].images) == (1, 1)


def _wait_for_receipts(world: World, device: Device, count: int) -> None:
    world.until(lambda: len(device.receipts) == count)


def test_what_is_no_set_of_gradients_is_refused_with_the_reason(make: MakeWorld) -> None:
    world = make(payload_megabytes=0.1)
    world.start()
    world.ask(weights())
    device = world.devices[ONE]
    cases: tuple[tuple[bytes, dict[str, Any], str], ...] = (
        (b"not gradients", {}, "gradients: "),
        (payload(0, seed=1, sets=2), {"number": 3}, "payload_bytes: "),
        (payload(0), {"payload": Digest.of(b"another payload"), "number": 4}, "payload: "),
    )
    for number, (data, changes, expected) in enumerate(cases, 1):
        device.give(data, **changes)
        _wait_for_receipts(world, device, number)
        answer = device.receipts[-1].answer
        assert isinstance(answer, Refused)
        assert answer.reason.startswith(expected)
    world.until(lambda: world.scores)
    assert world.scores[0].newest is None


def test_gradients_of_another_network_wait_for_the_next_order(make: MakeWorld) -> None:
    world = make()
    world.start()
    world.ask(weights())
    world.until(lambda: world.scores)
    new = Digest.of(b"the next network")
    world.devices[ONE].give(payload(0), lineage=new)
    world.devices[OTHER].give(payload(1), lineage=Digest.of(b"nobody's network"))
    world.for_a_while()
    assert not world.devices[ONE].receipts
    world.ask(weights(2), action=20, lineage=new)
    world.until(lambda: world.scores[-1].action == 20)
    assert world.scores[-1].images == 1
    assert isinstance(world.devices[ONE].receipts[0].answer, Accepted)
    (refused,) = world.devices[OTHER].receipts
    assert isinstance(refused.answer, Refused)
    assert refused.answer.reason.startswith("lineage: ")


def test_where_there_is_no_room_devices_are_asked_to_wait(make: MakeWorld) -> None:
    data = payload(0)
    world = make(waiting_megabytes=1.5 * len(data) / 1_000_000)
    world.start()
    world.devices[ONE].give(data)
    world.for_a_while()
    world.devices[OTHER].give(payload(0, seed=9))
    world.until(lambda: world.devices[OTHER].receipts)
    assert isinstance(world.devices[OTHER].receipts[0].answer, Later)
    world.ask(weights())
    world.until(lambda: world.scores)
    world.devices[OTHER].give(payload(0, seed=9))
    world.until(lambda: len(world.devices[OTHER].receipts) == 2)
    assert isinstance(world.devices[OTHER].receipts[1].answer, Accepted)


def _two_rounds(world: World, dies_when: str = "") -> list[Scored]:
    """Return both scores; their seconds are left out."""

    def die(moment: str) -> bool:
        if moment == dies_when:
            world.kill()
            world.start()
        return moment == dies_when

    world.start()
    world.devices[ONE].give(payload(0, 1, seed=1))
    world.devices[OTHER].give(payload(1, seed=2))
    world.for_a_while()
    die("gradients came")
    asked = world.ask(weights())
    world.until(lambda: world.devices[ONE].receipts)
    die("they were accepted")
    world.until(lambda: world.scores)
    if die("the score was told"):
        world.until(lambda: len(world.scores) == 2)
        assert world.scores[0] == world.scores[1]  # with the seconds that it took
    world.thank(asked)
    world.ask(weights(2), action=20, number=2)
    world.until(lambda: world.scores[-1].action == 20)
    both = (world.scores[0], world.scores[-1])
    return [score.model_copy(update={"seconds": 0.0}) for score in both]


@pytest.mark.parametrize("moment", ["gradients came", "they were accepted", "the score was told"])
def test_a_proxy_that_died_goes_on_as_if_it_had_not(make: MakeWorld, moment: str) -> None:
    assert _two_rounds(make(), moment) == _two_rounds(make())


def test_a_coordinator_that_asks_again_is_told_again(make: MakeWorld) -> None:
    world = make()
    world.start()
    world.devices[ONE].give(payload(0))
    asked = world.ask(weights())
    world.until(lambda: world.scores)
    world.thank(asked)
    world.for_a_while()
    world.ask(weights())
    world.until(lambda: len(world.scores) == 2)
    assert world.scores[0] == world.scores[1]


def test_only_the_newest_order_is_scored(make: MakeWorld) -> None:
    world = make()
    world.start()
    world.for_a_while()
    for number in (1, 2, 3):
        world.ask(weights(number), action=10 * number, number=number)
    world.until(lambda: world.scores)
    world.for_a_while()
    assert {item.action for item in world.scores} == {30}
    world.ask(weights(1), action=10, number=1)  # a late copy
    world.for_a_while()
    assert {item.action for item in world.scores} == {30}


def test_an_order_that_cannot_be_carried_out_is_a_problem_and_the_next_one_is_not(
    make: MakeWorld,
) -> None:
    world = make()
    world.start()
    world.devices[ONE].give(payload(0))
    world.ask(b"no weights", action=10)
    world.until(lambda: world.coordinator.bodies(Problem))
    (problem,) = world.coordinator.bodies(Problem)
    assert problem.about == "scoring"
    assert "weights" in problem.text
    world.ask(weights(2), action=20, number=2)
    world.until(lambda: world.scores)
    assert (world.scores[0].action, world.scores[0].images) == (20, 1)


def test_the_pool_of_one_network_says_nothing_of_the_next(make: MakeWorld) -> None:
    world = make()
    world.start()
    world.devices[ONE].give(payload(0))
    world.ask(weights())
    world.until(lambda: world.scores)
    world.ask(weights(2), action=20, lineage=Digest.of(b"the next network"))
    world.until(lambda: len({item.action for item in world.scores}) == 2)
    assert (world.scores[-1].newest, world.scores[-1].current) == (None, None)


def test_a_file_that_is_no_store_is_told(make: MakeWorld) -> None:
    world = make()
    (world.home / "proxy.db").write_bytes(b"no database, and long enough to be looked at" * 50)
    with pytest.raises(ProxyError, match=r"proxy.db: cannot be"):
        world.start()
    (world.home / "proxy.db").unlink()
    world.start()
    with sqlite3.connect(world.home / "proxy.db") as db:
        assert db.execute("SELECT COUNT(*) FROM letter").fetchone() == (0,)
