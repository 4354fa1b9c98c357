"""Light agents behind masks: sums of cohorts alone, and the same sum of all as without."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.topics.cohorts.entries import CohortSummed
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from tests.simulator.engines.inprocess.light.both import learn
from tests.simulator.engines.inprocess.small import fleet_of

METHODS = {
    "stsa": {"form": "exact", "map_width": 60, "max_samples_per_part": 1000},
    "fed3r": {"max_samples_per_part": 1000},
}


@pytest.mark.parametrize("name", METHODS)
def test_twelve_devices_are_summed_behind_masks_to_the_same_digest(
    name: str, cache: Path, tmp_path: Path
) -> None:
    sections = {
        "method": {"name": name, "settings": METHODS[name]},
        "devices": {"count": 12},
    }
    masks = {"masks": True, "cohort": 5, "least": 3, "wait_seconds": 60}
    plain = learn(LightEngine, fleet_of(cache, **sections), tmp_path / "plain")
    masked = learn(LightEngine, fleet_of(cache, **sections, privacy=masks), tmp_path / "masked")
    assert [r.aggregate for r in masked.records] == [r.aggregate for r in plain.records]
    assert all(body.part.cohort is not None for body in masked.bodies(ContributionAccepted))
    sums = masked.bodies(CohortSummed)
    assert len(sums) >= 2 * len(masked.records)
    assert all(3 <= len(body.members) <= 7 for body in sums)
