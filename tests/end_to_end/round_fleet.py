"""A fleet in one process that trains a network in rounds: real agents, a real coordinator."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import TypeVar

import pytest

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.rules import ModelRules, RoundRules, Rules, StageRules
from fleetledger.coordinator.models.networks import prepare_network
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportNetwork
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated
from fleetledger.device_agent.core.requests import Train
from fleetledger.device_agent.models.training import TrainingDone, train
from fleetledger.device_agent.settings import AgentTrainingSettings
from fleetledger.methods.training.exchange import FitInstruction, LocalData
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.memory import InMemoryBroker
from tests.end_to_end.memory_fleet import MemoryDevice, MemoryFleet, put_pictures

BARS = ("vertical", "horizontal")
SETTINGS: dict[str, object] = {"network": "mlp", "epochs": 2, "batch": 8, "rate": 0.05}
Body = TypeVar("Body", bound=EntryBody)


class Gate:
    """Holds the training of chosen devices in chosen rounds until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._held: dict[tuple[str, int], Event] = {}
        self._waiting: set[tuple[str, int]] = set()
        monkeypatch.setattr("fleetledger.device_agent.program.device_jobs.train", self._train)

    def hold(self, device: str, number: int) -> None:
        self._held[device, number] = Event()

    def waits(self, device: str, number: int) -> bool:
        """Whether a device has come to the training of that round."""
        return (device, number) in self._waiting

    def open(self, device: str, number: int) -> None:
        self._held[device, number].set()

    def open_all(self) -> None:
        for event in self._held.values():
            event.set()

    def _train(
        self,
        request: Train,
        instruction: FitInstruction,
        data: LocalData,
        memory: bytes | None,
        settings: AgentTrainingSettings,
    ) -> TrainingDone:
        key = (instruction.device, instruction.round.number)
        if key in self._held:
            self._waiting.add(key)
            assert self._held[key].wait(300)
        return train(request, instruction, data, memory, settings)


def rules(**rounds: object) -> Rules:
    """Two rounds a stage, closed when everybody has answered; with other `RoundRules`."""
    quick = {"per_stage": 2, "deadline_seconds": 60.0} | rounds
    return Rules(
        stages=StageRules(quiet_seconds=0.2),
        models=ModelRules(solve_every_seconds=0.2),
        rounds=RoundRules.model_validate(quick),
    )


class RoundFleet(MemoryFleet):
    """Three devices with bars, and all three kinds of pictures to be measured on."""

    def __init__(
        self,
        folder: Path,
        broker: InMemoryBroker | None = None,
        rounds: Rules | None = None,
        **settings: object,
    ) -> None:
        super().__init__(
            folder, broker or InMemoryBroker(), rounds or rules(), "rounds", **SETTINGS | settings
        )

    def add_with_bars(self, name: str, number: int) -> MemoryDevice:
        """Add a device with pictures of its own, of both kinds of bars."""
        device = self.add(name)
        for kind in BARS:
            put_pictures(device.data, kind, range(100 * number, 100 * number + 16))
        for kind in (*BARS, "spot"):
            put_pictures(device.evaluation, kind, range(10_000, 10_010))
        return device

    @classmethod
    def with_first_stage(cls, folder: Path) -> RoundFleet:
        """Return a fleet that trains a network in its first stage, and goes on with STSA."""
        fleet = cls.__new__(cls)
        MemoryFleet.__init__(fleet, folder, InMemoryBroker(), rules(), map_width=60, form="exact")
        lines = [f"{name} = {value!r}" for name, value in SETTINGS.items()]
        with (fleet.coordinator.home / "coordinator.toml").open("a", encoding="utf-8") as file:
            file.write("\n".join(["\n[first_stage.settings]", *lines, ""]))
        return fleet

    def join(self, device: MemoryDevice) -> None:
        """Admit and start a device, and wait until it is there."""
        self.coordinator.command(AdmitDevice(device=device.name))
        device.start()
        self.until(lambda: self.is_there(device.name))

    def begin(self, *classes: str, **files: Path) -> None:
        """Admit and start everybody, import the network, open a stage.

        `files` are those that `prepare_network` takes beside the preprocessing.
        """
        for name, device in self.devices.items():
            self.coordinator.command(AdmitDevice(device=DeviceId(name)))
            device.start()
        self.until(lambda: all(self.is_there(name) for name in self.devices))
        home = self.coordinator.home
        network = prepare_network(home, home / "pixels.json", **files)
        self.coordinator.command(ImportNetwork(network=network))
        self.coordinator.open(*classes)

    def is_there(self, name: str) -> bool:
        """Whether the coordinator knows that a device is connected."""
        return self.coordinator.engine.core.live.device(DeviceId(name)).boot is not None

    def told(self, kind: type[Body]) -> list[Body]:
        """The bodies of the entries of a kind."""
        return [body for body in self.entries(kind) if isinstance(body, kind)]

    def right(self, version: int, *names: str) -> list[float]:
        """The share of right answers to pictures of some classes, on each device."""
        bodies = [
            body.evaluation
            for body in self.told(DeviceEvaluated)
            if body.evaluation.version == version
        ]
        return [
            sum(body.results[name].correct for name in names)
            / sum(body.results[name].total for name in names)
            for body in bodies
        ]
