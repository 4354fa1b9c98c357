"""The log of a device's agent: what it was asked, gave and runs, each said once."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetledger.runtime.log_lines import LogFormat, LogLevel
from fleetledger.runtime.log_setup import configure, quiet
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.models import ModelStatus
from fleetledger.schemas.receipts import Receipt, Refused
from fleetledger.schemas.reports import Evaluation
from fleetledger.transport.memory import InMemoryBroker
from tests.device_agent import model_files as models
from tests.device_agent.scripted import (
    RunningAgent,
    ScriptedCoordinator,
    eventually,
    greet,
    stsa_assignment,
)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    configure(LogFormat.JSON, LogLevel.INFO, stream)
    yield stream
    quiet()


def said(log: io.StringIO) -> dict[str, dict[str, Any]]:
    quiet()
    return {item["event"]: item for item in every(log) if "event" in item}


def every(log: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


def test_what_a_device_gives_and_what_it_runs_are_told(
    log: io.StringIO, coordinator: ScriptedCoordinator, home: Path, broker: InMemoryBroker
) -> None:
    agent = RunningAgent(broker, home)
    greet(coordinator)
    coordinator.assign(stsa_assignment()[0])
    body, envelope = coordinator.wait_for(Contribution)
    coordinator.accept(envelope)
    model = models.exported(1)
    desired = models.desired_of(model.manifest, model)
    coordinator.desire(desired, model.manifest.canonical_bytes(), *model.files.values())
    assert coordinator.wait_for(ModelStatus)[0].state == "active"
    coordinator.wait_for(Evaluation)
    coordinator.die()
    eventually(lambda: "coordinator.away" in log.getvalue())
    agent.stop()
    events = said(log)
    assert set(events) >= {
        "agent.began",
        "broker.connected",
        "coordinator.back",
        "stage.asked",
        "contribution.made",
        "contribution.sent",
        "contribution.received",
        "model.asked",
        "model.switched",
        "model.measured",
        "coordinator.away",
        "agent.ended",
    }
    device = agent.home.settings.device
    assert {item["device"] for item in events.values()} == {device}
    sent = events["contribution.sent"]
    assert (sent["stage"], sent["samples"], sent["part"]) == (1, 5, body.key.part)
    assert events["contribution.received"]["index"] >= 0
    assert (events["model.switched"]["version"], events["model.switched"]["index"]) == (1, 7)
    once = [item["event"] for item in every(log) if item.get("event") in {"model.switched"}]
    assert once == ["model.switched"]


def test_a_refusal_is_told_once_with_its_reason(
    log: io.StringIO, coordinator: ScriptedCoordinator, home: Path, broker: InMemoryBroker
) -> None:
    agent = RunningAgent(broker, home)
    greet(coordinator)
    coordinator.assign(stsa_assignment()[0])
    body, _ = coordinator.wait_for(Contribution)
    answer = Refused(reason="samples: too many")
    receipt = Receipt(about="contribution", key=body.key, revision=body.revision, answer=answer)
    coordinator.send("rcpt", receipt)
    eventually(lambda: "contribution.refused" in log.getvalue())
    agent.stop()
    found = said(log)["contribution.refused"]
    assert (found["level"], found["reason"]) == ("warning", "samples: too many")
    assert sum("samples: too many" in item["message"] for item in every(log)) == 1


def test_a_picture_that_is_none_is_a_problem_that_is_told(
    log: io.StringIO, coordinator: ScriptedCoordinator, home: Path, broker: InMemoryBroker
) -> None:
    (home / "data" / "dark" / "broken.png").write_bytes(b"no picture \x1b[31m")
    agent = RunningAgent(broker, home)
    greet(coordinator)
    coordinator.assign(stsa_assignment()[0])
    eventually(lambda: "agent.problem" in log.getvalue())
    agent.stop()
    found = said(log)["agent.problem"]
    assert found["level"] == "warning"
    assert "broken.png" in found["message"]


def test_an_agent_in_a_simulation_is_quiet_and_looks_at_nothing(
    coordinator: ScriptedCoordinator, running: RunningAgent
) -> None:
    greet(coordinator)
    coordinator.assign(stsa_assignment()[0])
    coordinator.wait_for(Contribution)
    journal = running.agent._journal
    assert not journal.events.on
    assert journal._turn is None
