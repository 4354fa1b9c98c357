"""Devices that speak no version of the wire that the coordinator speaks: nothing waits for them."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.core.requests import AnnounceCoordinator, SendToDevice
from fleetledger.coordinator.core.rules import Rules, StageRules
from fleetledger.coordinator.core.work import AverageRound
from fleetledger.coordinator.topics.devices.entries import DeviceBorn
from fleetledger.coordinator.topics.rounds.entries import RoundClosed, RoundOpened
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.schemas.envelope import Sender
from fleetledger.schemas.presence import Birth, Heartbeat, Welcome
from fleetledger.schemas.values import BootId, DeviceId
from fleetledger.schemas.wire import WireRange
from tests.coordinator.core.harness import FLEET, Bench, contribution, sent
from tests.coordinator.core.round_bench import ABLE, RoundBench
from tests.coordinator.topics.rollouts.rollout_bench import RolloutBench

OURS = WireRange(lowest=2, highest=3)
OLD, NEW = WireRange(), WireRange(lowest=4, highest=4)
BEAT = Heartbeat(
    welcomed=False, outbox_length=0, waiting_images=0, resident_bytes=0, bytes_up=0, bytes_down=0
)


def birth(wire: WireRange, installation: str = "0123456789abcdef") -> Birth:
    return Birth(installation=BootId(installation), capabilities=ABLE, wire=wire)


def births(bench: Bench, device: str) -> list[DeviceBorn]:
    return [
        body for body, maker, _ in bench.entries if maker == device and isinstance(body, DeviceBorn)
    ]


@pytest.fixture
def bench() -> Bench:
    stages = StageRules(quiet_seconds=0.0, deadline_seconds=1e6)
    made = Bench(rules=Rules(wire=OURS, stages=stages))
    made.begin("new", "old", "own")
    for device, wire in (("new", NEW), ("old", OLD), ("own", OURS)):
        made.message(device, birth(wire))
    return made


def test_a_stage_closes_without_them(bench: Bench) -> None:
    assert bench.core.stages.answered_and_expected(1) == (0, 1)
    assert bench.core.stages.missing(1) == ["own"]
    bench.give("own", contribution("payload"))
    bench.wait(1)
    (closed,) = [body for body, _, _ in bench.entries if isinstance(body, StageClosed)]
    assert (closed.answered, closed.expected) == (1, 1)


def test_the_ledger_says_what_both_speak_and_says_it_once(bench: Bench) -> None:
    for wire, device in ((OLD, "old"), (NEW, "new")):
        told = births(bench, device)[-1]
        assert (told.wire, told.refused_by) == (wire, OURS)
        count = len(births(bench, device))
        assert bench.message(device, birth(wire)) == []
        assert len(births(bench, device)) == count
    assert births(bench, "own")[-1].refused_by is None


def test_they_are_told_nothing_and_their_heartbeats_call_for_no_birth(bench: Bench) -> None:
    asked = bench.message("old", BEAT)
    assert not [one for one in asked if isinstance(one, AnnounceCoordinator | SendToDevice)]
    bench.restart()
    assert not bench.message("old", BEAT)


def test_one_that_was_updated_is_told_everything_in_the_same_entry_of_its_run(bench: Bench) -> None:
    sender = bench.senders[DeviceId("old")] = Sender(FLEET, DeviceId("old"), BootId.fresh())
    asked = bench.message("old", birth(OURS))
    assert sent(asked, Welcome)
    known = bench.core.state.devices.admitted[DeviceId("old")]
    assert (known.led, known.wire, known.boot) == (True, OURS, sender.boot)
    assert set(bench.core.stages.missing(1)) == {"old", "own"}


def test_a_coordinator_that_speaks_less_than_before_leaves_them_out_and_takes_them_back() -> None:
    bench = Bench(rules=Rules(wire=WireRange(highest=2)))
    bench.begin("old", "own")
    bench.message("old", birth(OLD))
    run = bench.core.state.devices.admitted[DeviceId("old")]
    former = run.former_boot
    for wire, led in ((OURS, False), (WireRange(highest=2), True)):
        bench.rules = Rules(wire=wire)
        bench.restart()
        bench.message("old", birth(OLD))
        known = bench.core.state.devices.admitted[DeviceId("old")]
        assert (known.led, known.boot, known.former_boot) == (led, run.boot, former)


def test_a_round_asks_none_of_them_and_closes_without_one_that_was_asked() -> None:
    bench = RoundBench(devices=3)
    bench.core.devices._rules = Rules(wire=WireRange(highest=2))
    bench.lead()
    (opened,) = bench.told(RoundOpened)
    assert opened.cohort == bench.devices
    bench.born("dev-1", capabilities=ABLE, wire=NEW)
    bench.answer("dev-2")
    bench.answer("dev-3")
    bench.wait(0)
    averaged = bench.asked_for(AverageRound)
    assert [closed.reason for closed in bench.told(RoundClosed)] == ["everybody answered"]
    bench.average(averaged)
    bench.wait(1)
    assert bench.told(RoundOpened)[-1].cohort == ("dev-2", "dev-3")


def test_a_rollout_has_none_of_them_in_a_group_until_they_are_led() -> None:
    bench = RolloutBench()
    bench.fleet(4)
    bench.begin_rollout(groups=(2, 1.0))
    first, second = bench.offered()
    bench.born(first, capabilities=ABLE, wire=NEW)
    assert bench.rollout.phase.waiting == {second}
    bench.answers(second)
    bench.settle()
    bench.wait(100)
    bench.settle()
    assert bench.rollout.phase.group == 2
    others = {f"dev-{number:04}" for number in range(4)} - {first, second}
    assert bench.rollout.phase.waiting == others
    assert first not in bench.rollout.members
    bench.born(first, capabilities=ABLE)
    assert first in bench.rollout.members
