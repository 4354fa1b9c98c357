"""Names made from a seed."""

from __future__ import annotations

from fleetledger.simulator.virtual.seeds import seeded_boot, seeded_secret


def test_names_follow_from_the_seed_and_what_they_name() -> None:
    assert seeded_boot(1, "device-1", 0, 1) == seeded_boot(1, "device-1", 0, 1)
    names = {seeded_boot(seed, name, run) for seed in (1, 2) for name in "ab" for run in (1, 2)}
    assert len(names) == 8
    assert len(seeded_secret(1, "device-1")) == 32
    assert seeded_secret(1, "device-1") != seeded_secret(2, "device-1")
