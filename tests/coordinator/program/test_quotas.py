"""What each device may send, by a clock that is a number."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fleetledger.coordinator.core.rules import IntakeRules, Rules, StageRules
from fleetledger.coordinator.program.quotas import Quotas
from fleetledger.schemas.receipts import Accepted, Later, Receipt
from fleetledger.schemas.reports import Transition
from fleetledger.schemas.topics import DeviceTopic
from fleetledger.schemas.values import ClassName, DeviceId
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.shell_harness import (
    MemoryCoordinator,
    ScriptedDevice,
    contribution_of,
    write_home,
)

MIB = 1 << 20


def on(device: str = "camera-1", leaf: str = "msg") -> DeviceTopic:
    return DeviceTopic("up", DeviceId(device), leaf)


def quotas(messages: int = 60, mib: int = 60, refusals: int = 60) -> Quotas:
    return Quotas(
        IntakeRules(messages_per_minute=messages, mib_per_minute=mib, refusals_per_minute=refusals)
    )


def test_two_seconds_worth_may_come_at_once_and_then_as_much_as_grows() -> None:
    quota = quotas(messages=3000)
    assert sum(quota.takes(on(), 10, 0.0) for _ in range(200)) == 100
    assert sum(quota.takes(on(), 10, 1.0) for _ in range(200)) == 50
    assert sum(quota.takes(on(), 10, 1e9) for _ in range(200)) == 100
    assert quota.left_out == {DeviceId("camera-1"): 100 + 150 + 100}


def test_who_has_been_quiet_is_forgotten_and_has_lost_nothing_by_it() -> None:
    """Whoever asks: a quota that forgets answers as one that has room for everybody."""
    random = np.random.default_rng(1)
    forgets, alone = quotas(messages=600), {name: quotas(messages=600) for name in range(50)}
    now = 0.0
    for _ in range(3000):
        now += float(random.exponential(0.02))
        name = int(random.integers(50))
        spoken, size = on(f"camera-{name}"), int(random.integers(1, 200_000))
        assert forgets.takes(spoken, size, now) == alone[name].takes(spoken, size, now)
    for number in range(200):
        forgets.takes(on("camera-0"), 10, now + 100 + number)
    assert forgets.remembered == 1


def test_what_an_agent_has_under_way_may_always_come_at_once() -> None:
    quota = quotas(messages=6)
    assert sum(quota.takes(on(), 10, 0.0) for _ in range(100)) == 16


def test_a_sender_of_ten_times_its_quota_gets_its_quota() -> None:
    quota = quotas(messages=600)
    taken = sum(quota.takes(on(), 10, moment / 100) for moment in range(100 * 60 * 10))
    assert taken == pytest.approx(600 * 10 + 20, abs=2)


def test_bytes_count_too_and_one_large_message_is_never_too_large() -> None:
    quota = quotas(mib=60)
    assert quota.takes(on(), 120 * MIB, 0.0)
    assert not quota.takes(on(), 1, 117.0)
    assert quota.takes(on(), 1, 119.0)


def test_the_next_payload_waits_for_those_that_were_fetched_and_words_do_not() -> None:
    quota = quotas(mib=60)
    quota.charge(DeviceId("camera-1"), 183 * MIB, 0.0)
    assert quota.takes(on(), 200, 0.0)
    assert quota.defer(on(), 170.0, offers=True) == pytest.approx(11.0)
    assert quota.defer(on(), 170.0) == quota.rules.retry_seconds
    assert not quota.may_offer(on(), 180.0)
    assert quota.may_offer(on(), 182.0)
    assert quota.left_out == {DeviceId("camera-1"): 1}


def test_what_takes_long_to_read_counts_as_what_it_takes() -> None:
    quota = Quotas(IntakeRules(json_mib_per_minute=6))
    quota.charge_json(on(), 4 * MIB, 0.0)
    assert not quota.takes(on(), 10, 37.0)
    assert quota.defer(on(), 37.0) == pytest.approx(1.0, abs=1.0)
    assert quota.takes(on(), 10, 41.0)
    assert quota.takes(on("camera-2"), 10, 0.0)


def test_devices_and_births_have_allowances_of_their_own() -> None:
    quota = quotas(messages=1)
    while quota.takes(on(), 1, 0.0):
        pass
    assert quota.takes(on(leaf="state"), 1, 0.0)
    assert quota.takes(on("camera-2"), 1, 0.0)


def test_a_device_is_told_when_there_is_room_for_what_it_has_under_way() -> None:
    quota = quotas(messages=60)
    while quota.takes(on(), 1, 0.0):
        pass
    seconds = quota.defer(on(), 0.0)
    assert seconds == 16.0
    assert sum(quota.takes(on(), 1, seconds) for _ in range(100)) == 16


def test_it_is_told_no_more_often_than_it_may_be_refused() -> None:
    quota = quotas(messages=60, refusals=90)
    told = [quota.defer(on(), 0.0) for _ in range(5)]
    assert [seconds is None for seconds in told] == [False, False, False, True, True]
    assert quota.defer(on(), 20.0) is not None


def test_letters_beyond_the_quota_are_put_off_and_everything_else_is_left_out(
    tmp_path: Path,
) -> None:
    write_home(tmp_path)
    broker = InMemoryBroker()
    rules = Rules(
        stages=StageRules(quiet_seconds=1e6, deadline_seconds=1e6),
        intake=IntakeRules(messages_per_minute=2),
    )
    coordinator = MemoryCoordinator(tmp_path, broker, rules)
    device = ScriptedDevice("camera-1", broker, coordinator)
    try:
        coordinator.begin("camera-1", classes=("cat",))
        before = coordinator.engine.ledger.size
        for number in range(18):
            device.send(transition(number))
        last = device.wait_for(Receipt, count=18)
        answers = [envelope.read(Receipt).answer for envelope in device.received[-18:]]
        kinds = Counter(type(answer) for answer in answers)
        assert kinds == {Accepted: 16, Later: 2}
        assert isinstance(last.answer, Later)
        assert last.answer.after_seconds == pytest.approx(480, rel=0.1)
        assert last.answer.reason.startswith("quota: more than 2 messages or 512 MiB")
        assert coordinator.engine.ledger.size == before + 16
    finally:
        device.close()
        coordinator.close()


def test_an_offer_is_put_off_after_a_large_payload_and_a_report_is_heard(tmp_path: Path) -> None:
    write_home(tmp_path, "stsa", form="exact", map_width=512)
    broker = InMemoryBroker()
    long = StageRules(quiet_seconds=1e6, deadline_seconds=1e6)
    rules = Rules(stages=long, intake=IntakeRules(mib_per_minute=1))
    coordinator = MemoryCoordinator(tmp_path, broker, rules)
    device = ScriptedDevice("camera-1", broker, coordinator)
    try:
        coordinator.begin("camera-1", classes=("cat",))
        features = np.random.default_rng(1).integers(0, 127, (3, 512)).astype(np.float32)
        first, second = (
            contribution_of(
                coordinator, features[: 2 + part], ["cat"] * (2 + part), part=part,
                exchange=device.exchange,
            )
            for part in range(2)
        )  # fmt: skip
        assert first[0].offer is not None
        device.give(*first)
        assert isinstance(device.wait_for(Receipt).answer, Accepted)
        device.give(*second)
        defer = device.wait_for(Receipt, count=2).answer
        assert isinstance(defer, Later)
        assert defer.after_seconds > 2
        device.send(transition(0))
        assert isinstance(device.wait_for(Receipt, count=3).answer, Accepted)
    finally:
        device.close()
        coordinator.close()


def transition(number: int) -> Transition:
    return Transition(
        stage=1, number=number, why="class name", classes={ClassName(f"new-{number}"): 1}
    )
