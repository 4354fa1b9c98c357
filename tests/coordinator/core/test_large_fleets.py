"""Nothing that happens costs what the fleet is large, except where all of it is concerned."""

from __future__ import annotations

import cProfile
import pstats
import tracemalloc
from collections import Counter

import pytest

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.devices import TOLD_AT_ONCE
from fleetledger.coordinator.core.requests import Request, SendToDevice
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.schemas.presence import Heartbeat
from fleetledger.schemas.values import ClassName, DeviceId
from tests.coordinator.core.harness import BACKBONE, Bench, contribution

NAMES = tuple(f"dev-{number:04}" for number in range(2 * TOLD_AT_ONCE + 10))


def fleet(size: int) -> Bench:
    bench = Bench()
    for name in NAMES[:size]:
        bench.command(AdmitDevice(device=DeviceId(name)))
        bench.born(name)
    bench.command(ImportBackbone(backbone=BACKBONE))
    return bench


def opened(bench: Bench) -> list[Request]:
    command = OpenStage(class_names=(ClassName("cat"),))
    return bench.handle(inputs.OperatorCommand("open", command))


def told(requests: list[Request], leaf: str) -> Counter[str]:
    sent = (item for item in requests if isinstance(item, SendToDevice))
    return Counter(item.device for item in sent if item.leaf == leaf)


def beat(bench: Bench, device: str) -> Heartbeat:
    return Heartbeat(
        welcomed=True,
        assignment_action=bench.core.state.size,
        outbox_length=0,
        waiting_images=0,
        resident_bytes=1,
        bytes_up=1,
        bytes_down=1,
    )


def test_a_large_fleet_is_told_by_and_by_and_everybody_once() -> None:
    bench = fleet(len(NAMES))
    at_once = told(opened(bench), "assignment")
    assert set(at_once) == set(NAMES[:TOLD_AT_ONCE])
    assert bench.give(NAMES[-1], contribution("statistics", stage=1)).answer.answer == "accepted"
    later = told(bench.handle(inputs.Tick()), "assignment")
    assert set(later) == set(NAMES[TOLD_AT_ONCE : 2 * TOLD_AT_ONCE])
    rest = told(bench.handle(inputs.Tick()), "assignment")
    assert at_once + later + rest == Counter(NAMES)
    assert told(bench.handle(inputs.Tick()), "assignment") == {}


def test_who_is_told_late_is_told_what_counts_by_then() -> None:
    bench = fleet(len(NAMES))
    opened(bench)
    command = OpenStage(class_names=(ClassName("cat"), ClassName("dog")))
    requests = bench.handle(inputs.OperatorCommand("open the next", command))
    for _ in range(4):
        requests += bench.handle(inputs.Tick())
    stages = {
        item.device: item.body.model_dump()["stage"]
        for item in requests
        if isinstance(item, SendToDevice) and item.leaf == "assignment"
    }
    assert stages == dict.fromkeys(NAMES, 2)


def test_a_small_fleet_is_told_at_once() -> None:
    bench = fleet(3)
    assert told(opened(bench), "assignment") == Counter(NAMES[:3])


def test_a_broker_that_forgot_everything_is_told_everything_by_and_by() -> None:
    bench = fleet(len(NAMES))
    opened(bench)
    for _ in range(4):
        bench.handle(inputs.Tick())
    requests = bench.handle(inputs.CoordinatorConnected())
    assert len(told(requests, "assignment")) == TOLD_AT_ONCE
    for _ in range(4):
        requests += bench.handle(inputs.Tick())
    assert told(requests, "assignment") == Counter(NAMES)


def calls(bench: Bench, happening: inputs.Input) -> int:
    profile = cProfile.Profile()
    profile.enable()
    bench.handle(happening)
    profile.disable()
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.parametrize("happens", ["tick", "heartbeat", "contribution"])
def test_what_happens_takes_the_same_steps_in_a_fleet_of_any_size(happens: str) -> None:
    found = []
    for size in (20, 200):
        bench = fleet(size)
        opened(bench)
        bench.give(NAMES[0], contribution("statistics", stage=1))
        bench.wait(100)  # the stage is quiet, and most have not answered
        bench.handle(inputs.Tick())
        if happens == "tick":
            happening: inputs.Input = inputs.Tick()
        else:
            body = beat(bench, NAMES[1])
            if happens == "contribution":
                body = contribution("others", stage=1)
            sender = bench.senders[DeviceId(NAMES[1])]
            happening = inputs.DeviceMessage(DeviceId(NAMES[1]), sender.seal(body, sent_ms=0))
        found.append(calls(bench, happening))
    assert found[0] == found[1]


def test_a_device_that_is_there_takes_little_memory() -> None:
    few, many = 20, 220
    bench = fleet(few)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for name in NAMES[few:many]:
        bench.command(AdmitDevice(device=DeviceId(name)))
        bench.born(name)
        bench.message(name, beat(bench, name))
    bench.entries.clear()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (after - before) / (many - few) < 3000
