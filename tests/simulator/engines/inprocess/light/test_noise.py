"""Light agents and whole ones give parts with noise, within their budget."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.lineages.entries import BackboneImported
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from tests.simulator.engines.inprocess.light.both import learn
from tests.simulator.engines.inprocess.small import fleet_of

pytestmark = pytest.mark.skipif(
    find_spec("opendp") is None, reason="pip install 'fleetledger[privacy]'"
)


@pytest.mark.parametrize("engine", [LightEngine, InProcessEngine])
def test_a_fleet_learns_with_noise(engine, cache: Path, tmp_path: Path) -> None:
    privacy = {"noise": {"protects": "image", "epsilon": 8, "parts": 4}}
    method = {"name": "stsa", "settings": {"form": "exact", "map_width": 30}}
    learned = learn(engine, fleet_of(cache, privacy=privacy, method=method), tmp_path)
    (lineage,) = learned.bodies(BackboneImported)
    assert lineage.privacy.noise.epsilon == 8
    given = learned.bodies(ContributionAccepted)
    named = [set(body.part.samples) for body in given if body.part.key.stage == 1]
    assert named, "every device gave a part"
    assert all(names == named[0] for names in named), "all classes of the fleet, whatever it has"
    assert learned.models
