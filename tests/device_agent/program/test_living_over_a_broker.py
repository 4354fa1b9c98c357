"""The whole agent over the in-memory broker: models, status, connections, nonsense, bugs."""

from pathlib import Path

import pytest

from fleetledger.device_agent.home.status_file import read_status
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.models import ModelStatus
from fleetledger.schemas.presence import Birth, Death, Heartbeat
from fleetledger.schemas.reports import Evaluation, Problem
from fleetledger.transport.errors import ThreadEndedError
from fleetledger.transport.memory import InMemoryBroker
from tests.device_agent import model_files as models
from tests.device_agent.making import told_texts
from tests.device_agent.scripted import (
    FAST,
    SECONDS,
    RunningAgent,
    ScriptedCoordinator,
    eventually,
    greet,
    stsa_assignment,
)


def test_a_model_is_fetched_installed_evaluated_and_gone_back_from(
    coordinator: ScriptedCoordinator, running: RunningAgent
) -> None:
    greet(coordinator)
    good = models.exported(1)
    desired = models.desired_of(good.manifest, good, action=7)
    coordinator.desire(desired, good.manifest.canonical_bytes(), *good.files.values())
    status, _ = coordinator.wait_for(ModelStatus)
    assert (status.version, status.state) == (1, "active")
    evaluation, _ = coordinator.wait_for(Evaluation)
    assert {name: (r.correct, r.total) for name, r in evaluation.results.items()} == {
        "dark": (3, 3),
        "light": (1, 1),
    }
    assert evaluation.provider == "CPUExecutionProvider"
    assert evaluation.bytes_down > sum(len(data) for data in good.files.values())
    bad = models.exported(2, flipped=True)
    broken = bad.manifest.model_copy(update={"golden_scores": good.manifest.golden_scores})
    files = (*bad.files.values(), *good.files.values())
    offered = models.desired_of(bad.manifest, bad, action=8).model_copy(
        update={
            "manifest": models.offer_of(broken.canonical_bytes()),
            "files": tuple(models.offer_of(data) for data in files),
        }
    )
    coordinator.desire(offered, broken.canonical_bytes(), *files)
    status, _ = coordinator.wait_for(ModelStatus)
    assert (status.version, status.state) == (2, "rolled_back")
    assert "golden" in status.reason
    assert running.agent._parts.slots.active().version == 1


def test_an_agent_without_a_broker_keeps_trying_and_says_so(home: Path) -> None:
    broker = InMemoryBroker(users={})
    running = RunningAgent(broker, home)
    eventually(lambda: read_status(running.home.status_file) is not None)
    eventually(lambda: bool(read_status(running.home.status_file).problems))
    status = read_status(running.home.status_file)
    assert not status.connected
    assert "refuses this user name and password" in status.problems[0].text
    running.stop()


def test_status_tells_what_runs_and_what_waits(
    coordinator: ScriptedCoordinator, running: RunningAgent
) -> None:
    greet(coordinator)
    coordinator.assign(stsa_assignment()[0])
    _, envelope = coordinator.wait_for(Contribution)

    def status():
        running.agent._status_due = 0.0
        return read_status(running.home.status_file)

    eventually(lambda: status() is not None and status().outbox == 1)
    assert status().parts == {"waiting": 1}
    coordinator.accept(envelope)
    eventually(lambda: status().parts == {"accepted": 1})
    now = status()
    assert (now.connected, now.coordinator, now.counted_images, now.outbox) == (True, True, 5, 0)
    eventually(lambda: status().settled)
    assert now.provider == "CPUExecutionProvider"
    assert now.resident_mib > 10
    assert now.bytes_up > 0


def test_stopping_leaves_a_retained_death_of_this_boot(
    coordinator: ScriptedCoordinator, broker: InMemoryBroker, home: Path
) -> None:
    running = RunningAgent(broker, home)
    coordinator.be_born()
    _, birth = coordinator.wait_for(Birth)
    running.stop()
    body, envelope = coordinator.wait_for(Death)
    assert envelope.header.boot == birth.header.boot
    assert body.reason == "stopped"
    late = ScriptedCoordinator.in_memory(broker)
    assert late.wait_for(Death)[1].header.boot == birth.header.boot
    late.stop()


def test_a_lost_connection_leaves_a_death_too(
    coordinator: ScriptedCoordinator, broker: InMemoryBroker, running: RunningAgent
) -> None:
    coordinator.be_born()
    _, birth = coordinator.wait_for(Birth)
    broker.drop_connection("bench-3.control")
    _, envelope = coordinator.wait_for(Death)
    assert envelope.header.boot == birth.header.boot
    coordinator.wait_for(Birth)


def test_messages_that_make_no_sense_are_noted_and_do_not_stop_the_agent(
    coordinator: ScriptedCoordinator, running: RunningAgent
) -> None:
    greet(coordinator)
    coordinator.send("rcpt", Problem(about="x", text="of the wrong kind"))
    coordinator.send("ctl", Problem(about="message", text="your clock is a potato"))

    def told() -> str:
        status = read_status(running.home.status_file)
        return "" if status is None else " ".join(told_texts(status))

    eventually(lambda: "potato" in told())
    assert "'problem' arrived on" in told()
    coordinator.assign(stsa_assignment()[0])
    coordinator.wait_for(Contribution)


def test_heartbeats_carry_memory_and_traffic(
    coordinator: ScriptedCoordinator, broker: InMemoryBroker, home: Path
) -> None:
    from dataclasses import replace

    running = RunningAgent(broker, home, replace(FAST, heartbeat_seconds=0.1))
    body, _ = coordinator.wait_for(Heartbeat, lambda beat: beat.bytes_up > 0)
    assert body.resident_bytes > 1_000_000
    running.stop()


def test_a_bug_in_the_work_ends_the_agent_with_a_sentence_and_its_traceback_in_the_log(
    coordinator: ScriptedCoordinator,
    broker: InMemoryBroker,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*_arguments):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("fleetledger.device_agent.program.device_jobs.extract", broken)
    running = RunningAgent(broker, home)
    greet(coordinator)
    coordinator.assign(stsa_assignment()[0])
    running.thread.join(SECONDS)
    with pytest.raises(ThreadEndedError, match=r"'worker' ended by ZeroDivisionError\('a bug'\)"):
        running.stop()
    assert any(record.exc_info for record in caplog.records)
    status = read_status(running.home.status_file)
    assert status is not None
    assert "'worker' ended" in status.ended


def test_the_status_says_at_once_that_everything_is_done(
    coordinator: ScriptedCoordinator, running: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetledger.device_agent.program.shell.STATUS_SECONDS", 3600.0)
    greet(coordinator)
    coordinator.assign(stsa_assignment()[0])
    _, envelope = coordinator.wait_for(Contribution)
    running.agent._status_due = 0.0
    eventually(lambda: read_status(running.home.status_file).outbox == 1)
    assert not read_status(running.home.status_file).settled
    coordinator.accept(envelope)
    eventually(lambda: read_status(running.home.status_file).settled)
