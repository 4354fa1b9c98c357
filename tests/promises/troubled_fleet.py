"""A fleet that gives many contributions while everything around it fails, by a seed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from fleetledger.coordinator.core.rules import IntakeRules, ModelRules, Rules, StageRules
from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.models.entries import ModelSolved
from fleetledger.coordinator.topics.stages.commands import CloseStage
from fleetledger.methods.registry import statistics_coordinator
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.transport.faults import Faults
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.shell_harness import MemoryCoordinator, contribution_of, write_home
from tests.promises.outboxes import Letter, OutboxDevice

DEVICES = 20
COORDINATOR_KILLS, BROKER_KILLS, DEVICE_KILLS = 5, 5, 20
CLASSES = ("circle", "square")
PATIENCE = 600.0
_LONG = 1e6
_WIDTH = 16
RULES = Rules(
    stages=StageRules(quiet_seconds=_LONG, deadline_seconds=_LONG),
    models=ModelRules(automatic=False, solve_every_seconds=_LONG),
    intake=IntakeRules(retry_seconds=0.1, max_pending_per_device=100),
)


@dataclass(frozen=True)
class Story:
    """What the devices have to give, and what a fleet without troubles makes of it."""

    home: Path
    """A coordinator's, with an open stage."""
    letters: dict[DeviceId, Sequence[Letter]]
    aggregate: Digest

    @property
    def size(self) -> int:
        """Number of contributions."""
        return sum(map(len, self.letters.values()))


def undisturbed(home: Path, contributions: int) -> Story:
    """Return a story of so many contributions; nothing is there yet at `home`."""
    each = contributions // DEVICES
    write_home(home, "stsa", form="exact", map_width=_WIDTH, max_contributions=contributions)
    coordinator = MemoryCoordinator(home, InMemoryBroker(), RULES, signs=False)
    names = [DeviceId(f"device-{number:02}") for number in range(DEVICES)]
    coordinator.begin(*names, classes=CLASSES)
    random = np.random.default_rng(1)
    letters = {name: [_letter(coordinator, part, random) for part in range(each)] for name in names}
    aggregate = _aggregate(coordinator, letters)
    coordinator.close()
    return Story(home, letters, aggregate)


def troubled(story: Story, home: Path, seed: int) -> None:
    """Run the story with the troubles of a seed; raise `AssertionError` for a broken promise."""
    trouble = Trouble(story, home, seed)
    trouble.run()
    ledger = trouble.coordinator.engine.ledger
    accepted = list(ledger.find(ContributionAccepted))
    assert len(accepted) == story.size
    places = {(entry.device, entry.body["part"]["key"]["part"]): entry.index for entry in accepted}
    assert places == {
        (device.name, key.part): index
        for device in trouble.devices
        for key, index in device.indices.items()
    }, "a receipt names another entry than that of its contribution"
    trouble.coordinator.command(CloseStage())
    solved = trouble.coordinator.until(lambda: list(ledger.find(ModelSolved)))
    assert isinstance(solved, list)
    assert solved[0].body["aggregate"] == story.aggregate
    report = verify(ledger, trouble.coordinator.blobs)
    assert report.ok, report.mismatch
    trouble.close()


def _letter(coordinator: MemoryCoordinator, part: int, random: np.random.Generator) -> Letter:
    features = random.integers(0, 127, (3, _WIDTH), endpoint=True).astype(np.float32)
    body, payload = contribution_of(coordinator, features, [*CLASSES, CLASSES[0]], part=part)
    return Letter(body, payload)


def _aggregate(coordinator: MemoryCoordinator, letters: dict[DeviceId, Sequence[Letter]]) -> Digest:
    """Add all payloads up, one after the other."""
    lineage = coordinator.engine.core.state.lineages.current
    assert lineage is not None
    side = statistics_coordinator("stsa")
    assignment = side.read_assignment(lineage.settings)
    total = side.aggregate_type.empty(assignment)
    for item in (letter for given in letters.values() for letter in given):
        total += side.aggregate_type.of(assignment, side.check(assignment, item.payload), 1)
    return total.digest


class Trouble:
    """Runs the fleet to its end, and kills what the seed says at the moment that it says."""

    def __init__(self, story: Story, home: Path, seed: int) -> None:
        random = Random(seed)
        faults = Faults(seed=seed, drop=0.2, duplicate=0.2, reorder=0.5, reach=50)
        self.broker = InMemoryBroker(faults=faults)
        self._home = home
        shutil.copytree(story.home, home)
        self.coordinator = MemoryCoordinator(home, self.broker, RULES, signs=False)
        self.devices = [
            OutboxDevice(name, self.broker, letters) for name, letters in story.letters.items()
        ]
        kills = (
            [self._kill_coordinator] * COORDINATOR_KILLS
            + [self.broker.restart] * BROKER_KILLS
            + [lambda: random.choice(self.devices).kill()] * DEVICE_KILLS
        )
        moments = [random.randrange(1, story.size) for _ in kills]
        self._kills = sorted(zip(moments, kills, strict=True), key=lambda item: item[0])

    def run(self) -> None:
        """Go on until every outbox is empty."""
        end, turn = time.monotonic() + PATIENCE, 0
        while any(device.outbox for device in self.devices):
            turn += 1
            assert time.monotonic() < end, "the fleet does not come to its end"
            for device in self.devices:
                device.turn(turn)
            self.coordinator.shell.step(0.001)
            while self._kills and self._received() >= self._kills[0][0]:
                self._kills.pop(0)[1]()
        assert not self._kills, "everything that was to be killed was killed"

    def close(self) -> None:
        for device in self.devices:
            device.stop()
        self.coordinator.close()

    def _received(self) -> int:
        return sum(len(device.indices) for device in self.devices)

    def _kill_coordinator(self) -> None:
        self.coordinator.kill()
        self.coordinator = MemoryCoordinator(self._home, self.broker, RULES, signs=False)
