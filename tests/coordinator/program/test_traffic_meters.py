"""What passes through a coordinator is counted, by kinds that nobody outside can invent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.work import SolveHead
from fleetledger.coordinator.live.meters import Meters
from fleetledger.coordinator.live.snapshot import HistogramNow
from fleetledger.coordinator.program.traffic_meters import TrafficMeters
from fleetledger.schemas.presence import Heartbeat, Welcome
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.reports import Problem
from fleetledger.transport.memory import InMemoryBroker
from fleetledger.transport.meter import Counts
from tests.coordinator.core.harness import SECOND, Bench, contribution, solved
from tests.coordinator.core.round_bench import RoundBench
from tests.coordinator.shell_harness import (
    MemoryCoordinator,
    ScriptedDevice,
    contribution_of,
    write_home,
)

CLASSES = ("circle", "square")


@pytest.fixture
def broker() -> InMemoryBroker:
    return InMemoryBroker()


@pytest.fixture
def coordinator(tmp_path: Path, broker: InMemoryBroker) -> Iterator[MemoryCoordinator]:
    write_home(tmp_path, map_width=40, form="exact")
    made = MemoryCoordinator(tmp_path, broker)
    made.begin("dev-1", classes=CLASSES)
    yield made
    made.close()


@pytest.fixture
def device(broker: InMemoryBroker, coordinator: MemoryCoordinator) -> Iterator[ScriptedDevice]:
    made = ScriptedDevice("dev-1", broker, coordinator)
    made.born()
    made.wait_for(Welcome)
    yield made
    made.close()


def count(meters: Meters, name: str, *values: str) -> float:
    return sum(
        item.value
        for item in meters.counters()
        if item.name == name and tuple(item.labels.values()) == values
    )


RESULTS = ("accepted", "repeated", "refused", "later")


def histogram(meters: Meters, name: str) -> HistogramNow:
    return next(item for item in meters.histograms() if item.name == name)


def test_a_contribution_is_counted_by_what_its_receipt_said(
    coordinator: MemoryCoordinator, device: ScriptedDevice
) -> None:
    features = np.ones((10, 40), np.float32)
    body, payload = contribution_of(coordinator, features, ["circle", "square"] * 5)
    device.give(body, payload)
    device.wait_for(Receipt)
    device.give(body, payload)
    device.wait_for(Receipt, count=2)
    device.give(body.model_copy(update={"revision": 1}), payload[:-1])
    device.wait_for(Receipt, count=3)
    meters = coordinator.meters
    results = {name: count(meters, "contributions", name) for name in RESULTS}
    assert results == {"accepted": 1, "repeated": 1, "refused": 1, "later": 0}
    assert sum(histogram(meters, "receipt_seconds").counts) == 3
    assert sum(histogram(meters, "ledger_commit_seconds").counts) > 0
    assert count(meters, "messages", "in", "contribution") == 3
    assert count(meters, "traffic_bytes", "in", "contribution") > 3 * len(payload) - 2
    assert count(meters, "messages", "out", "receipt") == 3


def test_what_cannot_be_read_is_counted_and_makes_no_name(
    coordinator: MemoryCoordinator, device: ScriptedDevice
) -> None:
    device.send_bytes(b"\x00\x01")
    device.wait_for(Problem)
    body = Heartbeat(
        welcomed=True,
        outbox_length=0,
        waiting_images=0,
        resident_bytes=1,
        bytes_up=0,
        bytes_down=0,
    )
    data = device.send(body)
    device.send_bytes(data.replace(b'"heartbeat"', b'"invented!"'))
    device.wait_for(Problem, count=2)
    meters = coordinator.meters
    assert count(meters, "messages_refused", "unreadable") == 1
    assert count(meters, "messages", "in", "other") == 2
    assert "invented!" not in {item.labels.get("kind") for item in meters.counters()}


def test_what_is_beyond_a_quota_or_not_believed_is_counted_by_its_reason(
    device: ScriptedDevice,
) -> None:
    meters = Meters()
    traffic = TrafficMeters(meters)
    traffic.came(None, 10, within_quota=False)
    traffic.came(inputs.MessageRefused(device.name, "why"), 10, within_quota=True)
    assert count(meters, "messages_refused", "quota") == 1
    assert count(meters, "messages_refused", "unbelieved") == 1


def test_what_the_exchange_of_blocks_carried_is_taken_over() -> None:
    meters = Meters()
    traffic = TrafficMeters(meters)
    for carried in (Counts(1, 100, 2, 200), Counts(2, 150, 2, 200)):
        traffic.carried(carried)
    assert count(meters, "traffic_bytes", "out", "blocks") == 150
    assert count(meters, "traffic_bytes", "in", "blocks") == 200


def test_a_solve_takes_as_long_as_its_entry_says() -> None:
    bench, meters = Bench(), Meters()
    bench.begin("dev-1")
    bench.give("dev-1", contribution("payload"))
    asked = [request for _ in range(3) for request in bench.wait(3600)]
    request = next(item for item in asked if isinstance(item, SolveHead))
    TrafficMeters(meters).worked(solved(request))
    assert histogram(meters, "solve_seconds").total == solved(request).seconds


def test_a_round_takes_from_its_opening_to_its_closing() -> None:
    bench, meters = RoundBench(), Meters()
    traffic = TrafficMeters(meters)
    bench.lead()
    traffic.rounds(bench.core.state.rounds.current)
    bench.now_ns += 7 * SECOND
    bench.whole_round(1)
    for _ in range(2):
        traffic.rounds(bench.core.state.rounds.current)
    assert histogram(meters, "round_seconds").total == 7
    assert sum(histogram(meters, "round_seconds").counts) == 1


def test_a_round_that_ended_before_the_start_is_not_observed() -> None:
    bench, meters = RoundBench(), Meters()
    bench.lead()
    bench.whole_round(1)
    traffic = TrafficMeters(meters)
    for _ in range(2):
        traffic.rounds(bench.core.state.rounds.current)
    assert sum(histogram(meters, "round_seconds").counts) == 0
