"""What devices remember in time is what the fleet's file holds after every commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.inprocess.light.timed_device import TimedContext
from fleetledger.simulator.engines.inprocess.light.timed_memory import DeviceMemory
from tests.simulator.engines.inprocess.light.both import learn
from tests.simulator.engines.inprocess.small import fleet_of

REPORTS = {"classes": 4, "count": 2, "opened_by": "reports"}


def remembered(memory: DeviceMemory) -> tuple[object, ...]:
    """Return all of a memory, with its messages in their order."""
    records = memory.records
    return (
        vars(records) | {"detector": records.detector.to_plain()},
        [*records.outbox],
        memory.payloads,
        memory.slots.kept,
        memory.files,
        memory.boots,
    )


def test_a_file_holds_what_devices_remember(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[int] = []
    remember = TimedContext.remember

    def compared(self: TimedContext) -> None:
        changed = dict(self.changed)
        remember(self)
        for name, device in changed.items():
            memory = device.memory()
            assert remembered(self.memories.read(name)) == remembered(memory)
            kept.append(len(memory.payloads))

    monkeypatch.setattr(TimedContext, "remember", compared)
    learn(InProcessEngine, fleet_of(cache, stages=REPORTS, detection={"min_images": 5}), tmp_path)
    assert kept[-1] == 0
    assert max(kept) > 0
