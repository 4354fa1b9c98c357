"""What devices compare models on is drawn from the seed, and seen by each one's own camera."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fleetledger.simulator.datasets.loading import load_split
from fleetledger.simulator.plan.plan_maker import make_plan
from fleetledger.simulator.rollouts.held_out import FOLDER, HeldOut, RolloutFleet
from fleetledger.simulator.scenario.loading import load_scenario

SETTINGS = (
    "stages.classes=4",
    "stages.count=1",
    "devices.count=10",
    "rollout.held_out=12",
    "rollout.silent=0.2",
    "rollout.cameras.share=0.3",
)


@pytest.fixture(scope="module")
def scenario():
    return load_scenario("digits", SETTINGS)


@pytest.fixture(scope="module")
def split(scenario):
    return load_split(scenario.data, 1)


@pytest.fixture(scope="module")
def fleet(scenario, split):
    return RolloutFleet.drawn(scenario.rollout, make_plan(scenario, split, 1))


def test_shares_are_of_the_fleet_and_repeat(scenario, split, fleet):
    assert (len(fleet.dim), len(fleet.silent), len(fleet.failing)) == (3, 2, 0)
    again = RolloutFleet.drawn(scenario.rollout, make_plan(scenario, split, 1))
    assert again.dim == fleet.dim
    other = RolloutFleet.drawn(scenario.rollout, make_plan(scenario, split, 2))
    assert (other.dim, other.silent) != (fleet.dim, fleet.silent)


def test_a_device_holds_test_pictures_of_learned_classes_each_once(split, fleet):
    drawn = {name: fleet.pictures(name, split.test).tolist() for name in fleet.plan.devices}
    for indices in drawn.values():
        assert len(set(indices)) == 12
        assert set(split.test.labels[indices]) <= set(fleet.plan.seen(1))
    assert len({tuple(indices) for indices in drawn.values()}) == len(drawn)


def test_the_tag_is_that_of_the_other_camera_alone(fleet):
    tagged = {name for name in fleet.plan.devices if fleet.tags(name)}
    assert tagged == fleet.dim
    assert fleet.tags(next(iter(fleet.dim))) == {"camera": "dim"}


def test_pictures_lie_by_class_and_are_dim_where_the_camera_is(split, fleet, tmp_path: Path):
    held = HeldOut(fleet, split.test, tmp_path / "shared")
    for name in fleet.plan.devices:
        held.deliver(name, tmp_path / name / FOLDER)
        held.deliver(name, tmp_path / name / FOLDER)
        files = sorted((tmp_path / name / FOLDER).rglob("*.png"))
        assert len(files) == 12
        for file in files:
            index = int(file.stem)
            assert file.parent.name == split.test.class_names[split.test.labels[index]]
            pixels = np.asarray(Image.open(file))
            brightest = int(split.test.images[index].max())
            expected = round(0.4 * brightest) if name in fleet.dim else brightest
            assert pixels.max() == expected
