"""Homes of coordinators that have made models: real cores, ledgers and makers."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from fleetledger.coordinator.cli import ledger as cli
from fleetledger.coordinator.topics.classes.commands import RenameClass
from fleetledger.coordinator.topics.models.entries import ModelExported, ModelSolved
from fleetledger.schemas.contributions import PartKey, Withdrawal
from fleetledger.schemas.presence import Welcome
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.values import ClassName
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.program.test_shell import CLASSES, samples
from tests.coordinator.shell_harness import (
    MemoryCoordinator,
    ScriptedDevice,
    contribution_of,
    write_home,
)

WIDTH = 400
"""Wide enough that a contribution is a file of the blob store."""


class Story:
    """A coordinator and devices that give by hand, of which the test says who gives what."""

    def __init__(self, home: Path, *devices: str, **settings: object) -> None:
        self.home = home
        self.broker = broker = InMemoryBroker()
        own = settings if "method" in settings else {"map_width": WIDTH, "form": "exact"} | settings
        write_home(home, **own)
        self.coordinator = MemoryCoordinator(home, broker)
        self.coordinator.begin(*devices, classes=CLASSES)
        self.devices = {name: ScriptedDevice(name, broker, self.coordinator) for name in devices}
        self.receipts = dict.fromkeys(devices, 0)
        for device in self.devices.values():
            device.born()
            device.wait_for(Welcome)

    def give(self, name: str, seed: int, *, part: int = 0, revision: int = 0) -> Receipt:
        """Give 40 samples of a seed, and return the receipt."""
        device = self.devices[name]
        width = int(self.coordinator.engine.core.state.lineages.current.feature_width)  # type: ignore[union-attr]
        device.give(
            *contribution_of(
                self.coordinator,
                *samples(seed, 40, width),
                part=part,
                revision=revision,
                exchange=device.exchange,
            )
        )
        return self.receipt(name)

    def receipt(self, name: str) -> Receipt:
        self.receipts[name] += 1
        return self.devices[name].wait_for(Receipt, self.receipts[name])

    def withdraw(self, name: str, part: int = 0) -> None:
        key = PartKey(stage=1, part=part)
        self.devices[name].send(Withdrawal(key=key, revision=9, reason="moved"))
        self.receipt(name)

    def model(self) -> ModelSolved:
        """Wait for the model of all that is held, and its export; return how it was solved."""

        def made() -> ModelSolved | None:
            state = self.coordinator.engine.core.state
            newest = state.models.newest
            if (
                newest is None
                or newest.exported is None
                or not state.contributions.unchanged_since(newest.solved.ledger_size)
            ):
                return None
            rows = newest.solved.class_names == state.contributions.learned_names()
            return newest.solved if rows else None

        solved = self.coordinator.until(made)
        assert isinstance(solved, ModelSolved)
        return solved

    def come_back(self) -> None:
        """Start the coordinator again, which was closed; the devices stayed."""
        self.coordinator = MemoryCoordinator(self.home, self.broker)
        for device in self.devices.values():
            device._coordinator = self.coordinator

    def close(self) -> None:
        for device in self.devices.values():
            device.close()
        self.coordinator.close()


def three_models(home: Path, **settings: object) -> Story:
    """Three models: of two devices, after a class was renamed, after a part was withdrawn."""
    story = Story(home, "dev-1", "dev-2", **settings)
    story.give("dev-1", 1)
    story.give("dev-2", 2)
    story.model()
    story.coordinator.command(RenameClass(old=ClassName("circle"), new=ClassName("ring")))
    story.give("dev-1", 3, part=1)
    story.model()
    story.withdraw("dev-2")
    story.model()
    assert story.coordinator.kinds().count(ModelExported.kind) >= 3
    return story


def replay(home: Path, *options: str) -> tuple[int, str]:
    """Run `fleetledger ledger replay`; return exit code, and what it printed."""
    result = CliRunner().invoke(cli.app, ["replay", *options, "--home", str(home)])
    return result.exit_code, result.stdout + result.stderr
