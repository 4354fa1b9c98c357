"""The whole agent in a thread, over the in-memory broker, with a coordinator on a script."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from device_agent.status import read_status
from methods.registry import load_coordinator
from schemas.contributions import Contribution, Nothing, Withdrawal
from schemas.models import ModelStatus
from schemas.presence import Birth, Death, Heartbeat
from schemas.reports import Evaluation, Problem, WaitingClasses
from tests.device_agent import making, models
from tests.device_agent.scripted import (
    FAST,
    RunningAgent,
    ScriptedCoordinator,
    eventually,
)
from transport.memory import InMemoryBroker


@pytest.fixture
def broker() -> InMemoryBroker:
    return InMemoryBroker()


@pytest.fixture
def coordinator(broker: InMemoryBroker) -> Iterator[ScriptedCoordinator]:
    scripted = ScriptedCoordinator.in_memory(broker)
    yield scripted
    scripted.stop()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An agent's home with five pictures of two classes, changed long ago."""
    folder = tmp_path / "home"
    models.put_pictures(folder / "data", "dark", 1, 2, 3)
    models.put_pictures(folder / "data", "light", 4, 5)
    models.put_pictures(folder / "test", "dark", 11, 12, 13)
    models.put_pictures(folder / "test", "light", 14)
    settle(folder / "data")
    return folder


def settle(folder: Path) -> None:
    for path in folder.rglob("*.png"):
        os.utime(path, (1_000_000, 1_000_000))


@pytest.fixture
def running(broker: InMemoryBroker, home: Path) -> Iterator[RunningAgent]:
    agent = RunningAgent(broker, home)
    yield agent
    agent.stop()


def stsa_assignment(form: str = "compact", **details):
    """An assignment of the real method over the 64 pixels themselves."""
    half = load_coordinator("stsa")
    own = half.assign({"map": "none", "form": form}, 64)
    return models.assignment(**details).model_copy(
        update={"settings": own.model_dump(mode="json")}
    ), own


def greet(coordinator: ScriptedCoordinator, *held, next_part: int = 0) -> None:
    coordinator.be_born()
    _, envelope = coordinator.wait_for(Birth)
    coordinator.welcome(envelope.header.boot, *held, next_part=next_part)


def test_a_device_contributes_statistics_that_the_method_accepts(
    coordinator: ScriptedCoordinator, running: RunningAgent
) -> None:
    assignment, own = stsa_assignment()
    greet(coordinator)
    coordinator.assign(assignment)
    body, envelope = coordinator.wait_for(Contribution)
    assert body.samples == {"dark": 3, "light": 2}
    statistics = load_coordinator("stsa").check(own, envelope.attachment)
    assert statistics.samples_per_class == {"dark": 3, "light": 2}
    coordinator.accept(envelope)
    eventually(lambda: not running.agent._parts.state.records.outbox)


def test_a_contribution_is_sent_again_until_its_receipt(
    coordinator: ScriptedCoordinator, running: RunningAgent
) -> None:
    greet(coordinator)
    coordinator.assign(stsa_assignment()[0])
    first, _ = coordinator.wait_for(Contribution)
    again, envelope = coordinator.wait_for(Contribution)
    assert again == first
    coordinator.accept(envelope)


def test_a_large_payload_is_offered_and_fetched_in_blocks(
    coordinator: ScriptedCoordinator, home: Path, broker: InMemoryBroker, tmp_path: Path
) -> None:
    half = load_coordinator("stsa")
    own = half.assign({"map": "integer", "map_width": 400, "form": "exact"}, 64)
    frozen, assignment = mapped_assignment(own)
    coordinator.exchange.serve(frozen)
    running = RunningAgent(broker, home)
    greet(coordinator)
    coordinator.assign(assignment)
    body, envelope = coordinator.wait_for(Contribution)
    assert envelope.attachment == b""
    assert body.offer is not None
    payload = coordinator.fetch(body.offer, tmp_path / "fetched")
    assert half.check(own, payload).samples_per_class == {"dark": 3, "light": 2}
    coordinator.accept(envelope)
    eventually(lambda: body.payload not in running.agent._parts.blobs.digests())
    running.stop()


def mapped_assignment(own):
    """The same pictures behind an integer map, which makes the payload large."""
    from export.frozen import build_frozen
    from export.scaling_backbone import scaling_backbone

    half = load_coordinator("stsa")
    frozen = build_frozen(scaling_backbone(making.GREY_8), "integer", half.frozen_map(own))
    offer = models.offer_of(frozen)
    assignment = models.assignment().model_copy(
        update={
            "settings": own.model_dump(mode="json"),
            "lineage": offer.digest,
            "frozen": offer,
        }
    )
    return frozen, assignment


def test_an_offered_payload_survives_a_restart_and_a_lost_file_is_computed_again(
    coordinator: ScriptedCoordinator, home: Path, broker: InMemoryBroker, tmp_path: Path
) -> None:
    half = load_coordinator("stsa")
    own = half.assign({"map": "integer", "map_width": 400, "form": "exact"}, 64)
    frozen, assignment = mapped_assignment(own)
    coordinator.exchange.serve(frozen)
    running = RunningAgent(broker, home)
    greet(coordinator)
    coordinator.assign(assignment)
    body, _ = coordinator.wait_for(Contribution)
    running.stop()
    coordinator.arrived.clear()
    running = RunningAgent(broker, home)
    greet(coordinator)
    again, _ = coordinator.wait_for(Contribution)
    assert again == body
    assert coordinator.fetch(body.offer, tmp_path / "fetched")
    running.stop()
    running.home.state_folder.joinpath("blobs", body.payload).unlink()
    coordinator.arrived.clear()
    running = RunningAgent(broker, home)
    greet(coordinator)
    newer, _ = coordinator.wait_for(Contribution, lambda item: item.revision == 1)
    assert (newer.key, newer.payload) == (body.key, body.payload)
    running.stop()


def test_a_kill_after_the_commit_loses_nothing(
    coordinator: ScriptedCoordinator, home: Path, broker: InMemoryBroker
) -> None:
    greet_later = RunningAgent(broker, home)
    greet(coordinator)
    coordinator.assign(stsa_assignment()[0])
    body, _ = coordinator.wait_for(Contribution)
    greet_later.stop()
    coordinator.arrived.clear()
    again = RunningAgent(broker, home)
    greet(coordinator)
    repeated, envelope = coordinator.wait_for(Contribution)
    assert repeated == body
    coordinator.accept(envelope)
    again.stop()


def test_a_relabelled_picture_replaces_its_part(
    coordinator: ScriptedCoordinator, running: RunningAgent, home: Path
) -> None:
    greet(coordinator)
    coordinator.assign(stsa_assignment()[0])
    _, envelope = coordinator.wait_for(Contribution)
    coordinator.accept(envelope)
    (home / "data" / "dark" / "3.png").rename(home / "data" / "light" / "3.png")
    body, envelope = coordinator.wait_for(Contribution, lambda item: item.revision == 1)
    assert body.samples == {"dark": 2, "light": 3}
    coordinator.accept(envelope)


def test_a_picture_that_does_not_decode_is_reported_and_the_others_count(
    coordinator: ScriptedCoordinator, broker: InMemoryBroker, home: Path
) -> None:
    (home / "data" / "dark" / "2.png").write_bytes(models.picture("dark", 2)[:60])
    settle(home / "data")
    running = RunningAgent(broker, home)
    greet(coordinator)
    coordinator.assign(stsa_assignment()[0])
    told, _ = coordinator.wait_for(Problem)
    assert told.about == "image"
    assert "dark/2.png" in told.text
    assert "damaged" in told.text
    body, envelope = coordinator.wait_for(Contribution)
    assert body.samples == {"dark": 2, "light": 2}
    coordinator.accept(envelope)
    running.stop()


def test_a_class_folder_without_images_is_reported(
    coordinator: ScriptedCoordinator, broker: InMemoryBroker, home: Path
) -> None:
    (home / "data" / "empty").mkdir()
    running = RunningAgent(broker, home)
    greet(coordinator)
    told, _ = coordinator.wait_for(Problem)
    assert told.text.startswith("empty: this class folder has no images")
    running.stop()


def test_unknown_classes_wait_and_nothing_is_said_for_the_stage(
    coordinator: ScriptedCoordinator, running: RunningAgent
) -> None:
    greet(coordinator)
    assignment = stsa_assignment()[0].model_copy(update={"class_names": ()})
    coordinator.assign(assignment)
    assert coordinator.wait_for(WaitingClasses)[0].classes == {"dark": 3, "light": 2}
    assert coordinator.wait_for(Nothing)[0].stage == 1


def test_a_reinstalled_agent_withdraws_first(
    coordinator: ScriptedCoordinator, running: RunningAgent
) -> None:
    greet(coordinator, making.held(0, 4, "of an earlier installation"), next_part=1)
    coordinator.assign(stsa_assignment()[0])
    body, _ = coordinator.wait_for(Withdrawal)
    assert (body.key.part, body.revision) == (0, 5)
    eventually(
        lambda: running.agent._parts.state.records.parts.get(making.part_key(1, 1)) is not None
    )
    assert not [item for item in coordinator.arrived if item.header.kind == Contribution.kind]
    coordinator.send("rcpt", making.accepted("withdrawal", body.key, 5))
    assert coordinator.wait_for(Contribution)[0].key.part == 1


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
    assert "refuses this user name and password" in status.problems[0]
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
    problems = running.agent._problems
    eventually(lambda: any("potato" in text for text in problems or running.agent._problems))
    assert any("'problem' arrived on" in text for text in running.agent._problems)
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


def test_a_bug_in_the_work_ends_the_agent_with_its_traceback(
    coordinator: ScriptedCoordinator,
    broker: InMemoryBroker,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_arguments):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("device_agent.bench.extract", broken)
    running = RunningAgent(broker, home)
    greet(coordinator)
    coordinator.assign(stsa_assignment()[0])
    running.thread.join(20)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        running.stop()


def test_lost_doubled_and_reordered_messages_change_nothing(home: Path) -> None:
    from transport.faults import Faults

    broker = InMemoryBroker(faults=Faults(seed=3, drop=0.2, duplicate=0.3, reorder=0.3))
    coordinator = ScriptedCoordinator.in_memory(broker)
    running = RunningAgent(broker, home)
    assignment = stsa_assignment()[0]
    coordinator.exchange.serve(models.lineage().frozen)
    accepted: set[tuple[int, int]] = set()

    def serve() -> bool:
        coordinator.be_born()
        coordinator.send("assignment", assignment, retain=True)
        coordinator.look(0.02)
        for envelope in coordinator.arrived:
            if envelope.header.kind == Birth.kind:
                coordinator.welcome(envelope.header.boot)
            if envelope.header.kind == Contribution.kind:
                body = envelope.read(Contribution)
                accepted.add((body.key.part, body.revision))
                coordinator.accept(envelope)
        coordinator.arrived.clear()
        records = running.agent._parts.state.records
        return bool(records.parts) and not records.outbox

    eventually(serve)
    running.stop()
    coordinator.stop()
    assert (0, 0) in accepted
    samples = running.agent._parts.state.records.counted[assignment.lineage]
    assert len(samples) == 5
