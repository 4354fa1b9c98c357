"""The whole agent over the in-memory broker: contributions, from pictures to receipts."""

from pathlib import Path

from fleetledger.methods.registry import statistics_coordinator
from fleetledger.methods.stsa.coordinator import frozen_map
from fleetledger.schemas.contributions import Contribution, Nothing, Withdrawal
from fleetledger.schemas.presence import Birth
from fleetledger.schemas.reports import Problem, WaitingClasses
from fleetledger.transport.memory import InMemoryBroker
from tests.device_agent import making
from tests.device_agent import model_files as models
from tests.device_agent.scripted import (
    RunningAgent,
    ScriptedCoordinator,
    eventually,
    greet,
    settle,
    stsa_assignment,
)


def test_a_device_contributes_statistics_that_the_method_accepts(
    coordinator: ScriptedCoordinator, running: RunningAgent
) -> None:
    assignment, own = stsa_assignment()
    greet(coordinator)
    coordinator.assign(assignment)
    body, envelope = coordinator.wait_for(Contribution)
    assert body.samples == {"dark": 3, "light": 2}
    statistics = statistics_coordinator("stsa").check(own, envelope.attachment)
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
    side = statistics_coordinator("stsa")
    own = side.assign({"map": "integer", "map_width": 400, "form": "exact"}, 64)
    frozen, assignment = mapped_assignment(own)
    coordinator.exchange.serve(frozen)
    running = RunningAgent(broker, home)
    greet(coordinator)
    coordinator.assign(assignment)
    body, envelope = coordinator.wait_for(Contribution)
    assert envelope.attachment == b""
    assert body.offer is not None
    payload = coordinator.fetch(body.offer, tmp_path / "fetched")
    assert side.check(own, payload).samples_per_class == {"dark": 3, "light": 2}
    coordinator.accept(envelope)
    eventually(lambda: body.payload not in running.agent._parts.blobs.digests())
    running.stop()


def mapped_assignment(own):
    """The same pictures behind an integer map, which makes the payload large."""
    from fleetledger.export.frozen import build_frozen
    from fleetledger.export.scaling_backbone import scaling_backbone

    frozen = build_frozen(scaling_backbone(making.GREY_8), "integer", frozen_map(own))
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
    side = statistics_coordinator("stsa")
    own = side.assign({"map": "integer", "map_width": 400, "form": "exact"}, 64)
    frozen, assignment = mapped_assignment(own)
    coordinator.exchange.serve(frozen)
    running = RunningAgent(broker, home)
    greet(coordinator)
    coordinator.assign(assignment)
    body, _ = coordinator.wait_for(Contribution)
    running.stop()
    coordinator.forget_runs()
    running = RunningAgent(broker, home)
    greet(coordinator)
    again, _ = coordinator.wait_for(Contribution)
    assert again == body
    assert coordinator.fetch(body.offer, tmp_path / "fetched")
    running.stop()
    running.home.state_folder.joinpath("blobs", body.payload).unlink()
    coordinator.forget_runs()
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
    coordinator.forget_runs()
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
    assert told.about == "sample"
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
    assert told.text.startswith("empty: this class folder has no files to learn from")
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


def test_lost_doubled_and_reordered_messages_change_nothing(home: Path) -> None:
    from fleetledger.transport.faults import Faults

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
