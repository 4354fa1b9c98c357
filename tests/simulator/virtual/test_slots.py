"""The quick slots of a virtual device do what a real device's slots do."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import pytest

from fleetledger.device_agent.models.slots import ModelSlots, Slot
from fleetledger.schemas.values import Digest
from fleetledger.simulator.virtual.slots import MemorySlots, QuickSlots


def slot(version: int) -> Slot:
    files = tuple(Digest.of(f"{version}/{name}".encode()) for name in ("frozen", "head"))
    return Slot(version=version, manifest=Digest.of(str(version).encode()), files=files)


@pytest.mark.parametrize("seed", range(5))
def test_they_agree_with_real_slots_whatever_happens(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    real, path = ModelSlots(tmp_path / "slots"), tmp_path / "slots.json"
    quick, remembered = QuickSlots(path), MemorySlots()
    for _ in range(30):
        match chance.choice(["install", "install", "go back", "wake"]):
            case "install":
                new = slot(chance.randint(1, 4))
                real.install(new)
                quick.install(new)
                remembered.install(new)
            case "go back":
                assert quick.go_back() == remembered.go_back() == real.go_back()
            case "wake":
                quick = QuickSlots(path)
                remembered = pickle.loads(pickle.dumps(remembered))
        assert quick.active() == remembered.active() == real.active()
        assert quick.digests() == remembered.digests() == real.digests()
