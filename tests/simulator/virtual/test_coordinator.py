"""The real coordinator in virtual time: it sleeps until something can change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.models.backbones import prepare_backbone
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.schemas.values import BootId, ClassName, DeviceId
from fleetledger.simulator.virtual.coordinator import VirtualCoordinator
from fleetledger.simulator.virtual.world import VirtualWorld
from tests.coordinator.shell_harness import write_home


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[VirtualCoordinator]:
    write_home(tmp_path, map_width=8)
    made = VirtualCoordinator(VirtualWorld.made(1, 0.02), tmp_path, BootId("7" * 16))
    made.start()
    yield made
    made.close()


def carry_out(coordinator: VirtualCoordinator, world: VirtualWorld, command: Command) -> str:
    ticket = coordinator.inbox.submit(command)
    answers = []

    def answered() -> bool:
        answer = coordinator.inbox.answer_to(ticket)
        if answer is not None:
            answers.append(answer)
        return bool(answers)

    assert world.run(answered, lambda: world.now + 10)
    assert answers[0].done, answers[0].text
    return answers[0].text


def test_it_carries_commands_out_and_leaps_to_a_deadline(
    coordinator: VirtualCoordinator, tmp_path: Path
) -> None:
    world = coordinator._world
    carry_out(coordinator, world, AdmitDevice(device=DeviceId("silent")))
    backbone = prepare_backbone(
        tmp_path, tmp_path / "pixels.onnx", tmp_path / "pixels.json", trusted=True
    )
    carry_out(coordinator, world, ImportBackbone(backbone=backbone))
    text = carry_out(coordinator, world, OpenStage(class_names=(ClassName("cat"),)))
    assert text == "stage 1 is open for cat"
    opened, steps = world.now, 0
    while coordinator.state.stages.by_number[1].closed_index is None:
        world.loop.step()
        steps += 1
    assert world.now - opened == pytest.approx(3600, abs=1)
    assert steps < 20


def test_a_refused_command_changes_nothing(coordinator: VirtualCoordinator) -> None:
    world = coordinator._world
    ticket = coordinator.inbox.submit(OpenStage(class_names=(ClassName("cat"),)))
    world.run(lambda: not coordinator.inbox.waiting(), lambda: world.now + 10)
    answer = coordinator.inbox.answer_to(ticket)
    assert answer is not None
    assert not answer.done
    assert "nothing to learn with" in answer.text
    assert coordinator.state.size == 0
