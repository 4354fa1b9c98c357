"""A simulated device's slots do what a real device's slots do."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fleetledger.device_agent.models.slots import ModelSlots, Slot
from fleetledger.schemas.values import Digest
from fleetledger.simulator.virtual.slots import KeptSlots, MemorySlots


def slot(version: int) -> Slot:
    files = tuple(Digest.of(f"{version}/{name}".encode()) for name in ("frozen", "head"))
    return Slot(version=version, manifest=Digest.of(str(version).encode()), files=files)


@pytest.mark.parametrize("seed", range(5))
def test_they_agree_with_real_slots_whatever_happens(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    real, simulated = ModelSlots(tmp_path / "slots"), MemorySlots()
    for _ in range(30):
        match chance.choice(["install", "install", "go back", "wake"]):
            case "install":
                new = slot(chance.randint(1, 4))
                real.install(new)
                simulated.install(new)
            case "go back":
                assert simulated.go_back() == real.go_back()
            case "wake":
                kept = simulated.kept.model_dump_json()
                simulated = MemorySlots(KeptSlots.model_validate_json(kept))
        assert simulated.active() == real.active()
        assert simulated.digests() == real.digests()
