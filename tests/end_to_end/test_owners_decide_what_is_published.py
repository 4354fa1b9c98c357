"""A fleet that pools features, and a device whose owner does not let them leave, then does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fleetledger.coordinator.core.rules import ModelRules, StageRules
from fleetledger.coordinator.core.rules import Rules as CoordinatorRules
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    NothingReported,
)
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated, ModelSolved
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.program.assembly import rules_of
from fleetledger.device_agent.settings import PolicySettings
from fleetledger.transport.memory import InMemoryBroker
from tests.end_to_end.memory_fleet import RULES, MemoryDevice, MemoryFleet, put_pictures

CLASSES = ("vertical", "horizontal")
EVERYBODY = CoordinatorRules(
    stages=StageRules(quorum=1.0, quiet_seconds=0.2, deadline_seconds=1e6),
    models=ModelRules(solve_every_seconds=0.2),
)
"""A stage that closes when every device has answered, and at no other time."""


class OwnedDevice(MemoryDevice):
    """An agent that goes by what its owner wrote into agent.toml."""

    def start(self) -> None:
        own = rules_of(AgentHome.open(self.home))
        self._rules = replace(RULES, policy=PolicySettings(publish_features=own.publish_features))
        super().start()

    def allow(self) -> None:
        """Let features leave, as an owner does it: edit the file, start again."""
        path = self.home / "agent.toml"
        text = path.read_text(encoding="utf-8")
        changed = text.replace("publish_features = false", "publish_features = true")
        assert changed != text
        path.write_text(changed, encoding="utf-8")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[MemoryFleet]:
    made = MemoryFleet(tmp_path, InMemoryBroker(), EVERYBODY, "pooled")
    for number, name in enumerate(("closed", "open")):
        device = OwnedDevice(tmp_path / name, made.broker)
        made.devices[name] = device
        for kind in CLASSES:
            put_pictures(device.data, kind, range(100 * number, 100 * number + 16))
            put_pictures(device.evaluation, kind, range(1000, 1010))
    made.devices["open"].allow()  # type: ignore[attr-defined]
    yield made
    made.close()


@pytest.mark.nightly
def test_a_stage_does_not_wait_for_a_device_that_publishes_nothing_until_it_may(
    fleet: MemoryFleet,
) -> None:
    fleet.begin(*CLASSES)
    fleet.until(lambda: fleet.entries(StageClosed))
    (closed,) = fleet.entries(StageClosed)
    assert isinstance(closed, StageClosed)
    assert (closed.answered, closed.expected) == (2, 2)
    (nothing,) = fleet.entries(NothingReported)
    assert isinstance(nothing, NothingReported)
    assert nothing.nothing.reason.startswith(
        "policy.publish_features = false: this device does not publish features; "
    )
    assert fleet.counted_samples() == dict.fromkeys(CLASSES, 16)
    fleet.until(lambda: len(fleet.entries(DeviceEvaluated)) == 2)

    reluctant = fleet.devices["closed"]
    assert isinstance(reluctant, OwnedDevice)
    fleet.until(lambda: reluctant.status().active_version == 1)
    status = reluctant.status()
    assert (status.policy, status.parts, status.outbox) == (nothing.reason, {}, 0)
    assert fleet.devices["open"].status().policy == ""

    reluctant.stop()
    reluctant.allow()
    reluctant.start()
    fleet.until(lambda: fleet.counted_samples() == dict.fromkeys(CLASSES, 32))
    kinds = {
        body.part.payload_kind
        for body in fleet.entries(ContributionAccepted)
        if isinstance(body, ContributionAccepted)
    }
    assert kinds == {"features"}
    fleet.until(lambda: len(fleet.entries(ModelSolved)) == 2)
