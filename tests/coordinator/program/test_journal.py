"""The coordinator's log: what is committed is said once, with device and entry."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetledger.runtime.log_lines import FIELDS, LogFormat, LogLevel
from fleetledger.runtime.log_setup import configure, quiet
from fleetledger.schemas.models import DesiredModel
from fleetledger.schemas.presence import Death, Welcome
from fleetledger.schemas.receipts import Receipt
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.shell_harness import (
    MemoryCoordinator,
    ScriptedDevice,
    contribution_of,
    write_home,
)

CLASSES = ("circle", "square")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    configure(LogFormat.JSON, LogLevel.INFO, stream)
    yield stream
    quiet()


@pytest.fixture
def broker() -> InMemoryBroker:
    return InMemoryBroker()


def said(log: io.StringIO) -> list[dict[str, Any]]:
    quiet()
    return [json.loads(line) for line in log.getvalue().splitlines()]


def test_a_stage_is_told_by_its_entries_with_device_and_index(
    tmp_path: Path, log: io.StringIO, broker: InMemoryBroker
) -> None:
    write_home(tmp_path, map_width=40, form="exact")
    coordinator = MemoryCoordinator(tmp_path, broker)
    coordinator.begin("dev-1", classes=CLASSES)
    device = ScriptedDevice("dev-1", broker, coordinator)
    device.born()
    device.wait_for(Welcome)
    features = np.random.default_rng(1).integers(0, 60, (60, 40)).astype(np.float32)
    device.give(*contribution_of(coordinator, features, [CLASSES[i % 2] for i in range(60)]))
    device.wait_for(Receipt)
    device.wait_for(DesiredModel)
    kinds = coordinator.kinds()
    device.send(Death(reason="switched off"), leaf="state")
    coordinator.until(lambda: "device.away" in log.getvalue())
    coordinator.close()
    device.close()
    lines = said(log)
    events = [line.get("event") for line in lines]
    entries = {line["index"]: line["event"] for line in lines if "index" in line}
    assert all(kinds[index] == kind for index, kind in entries.items())
    assert {"stage.opened", "contribution.accepted", "model.solved", "model.exported"} <= {*events}
    assert "device.online" not in events  # device.born says it
    given = next(line for line in lines if line.get("event") == "contribution.accepted")
    assert (given["device"], given["stage"]) == ("dev-1", 1)
    assert given["message"].startswith("Device dev-1 gave ")
    assert {"payload_bytes", "payload_kind", "method"} <= {*given} - {*FIELDS}
    away = next(line for line in lines if line.get("event") == "device.away")
    assert (away["device"], away["reason"]) == ("dev-1", "switched off")


def test_a_coordinator_in_a_simulation_is_quiet(
    tmp_path: Path, broker: InMemoryBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    write_home(tmp_path, map_width=40, form="exact")
    coordinator = MemoryCoordinator(tmp_path, broker)
    coordinator.begin("dev-1", classes=CLASSES)
    coordinator.close()
    assert capfd.readouterr().err == ""
