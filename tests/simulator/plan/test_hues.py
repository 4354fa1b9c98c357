"""A device's pictures are all of one hue, and each test picture of one of its own."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from fleetledger.simulator.datasets.hue import HueShifted
from fleetledger.simulator.datasets.loading import load_split
from fleetledger.simulator.plan.hues import in_hues
from fleetledger.simulator.plan.plan_maker import make_plan
from fleetledger.simulator.scenario.model import Scenario


def scenario(**changes: dict[str, object]) -> Scenario:
    sections = {
        "data": {"set": "patterns", "patterns": {"classes": 4, "train": 30, "test": 20}},
        "stages": {"count": 2},
        "devices": {"count": 3},
    }
    merged = {name: section | changes.get(name, {}) for name, section in sections.items()}
    return Scenario.model_validate({"title": "hues"} | merged)


def shifts(asked: Scenario) -> HueShifted:
    split = load_split(asked.data, 1)
    train = in_hues(asked, split, make_plan(asked, split, 1)).train
    assert isinstance(train, HueShifted)
    return train


def test_a_device_has_one_hue_through_all_stages() -> None:
    asked = scenario(devices={"hue": 0.4})
    train = shifts(asked)
    plan = make_plan(asked, load_split(asked.data, 1), 1)
    own = {}
    for name in plan.devices:
        parts = [stage.devices[name].indices for stage in plan.stages]
        (own[name],) = set(train.shifts[np.concatenate(parts)].tolist())
    assert len(set(own.values())) == 3
    assert all(0 < abs(shift) <= 0.4 for shift in own.values())


def test_a_larger_fleet_has_the_same_hues_and_more() -> None:
    few, many = (set(shifts(scenario(devices={"count": n, "hue": 0.4})).shifts) for n in (2, 3))
    assert few < many


def test_every_test_picture_has_a_hue_of_its_own() -> None:
    asked = scenario(data={"test_hue": 0.1})
    split = load_split(asked.data, 1)
    turned = in_hues(asked, split, make_plan(asked, split, 1))
    assert turned.train is split.train
    assert isinstance(turned.test, HueShifted)
    assert len(set(turned.test.shifts)) == 80
    assert 0.09 < np.abs(turned.test.shifts).max() <= 0.1


def test_who_asks_for_none_gets_the_data_set_as_it_is() -> None:
    asked = scenario()
    split = load_split(asked.data, 1)
    same = in_hues(asked, split, make_plan(asked, split, 1))
    assert (same.train, same.test) == (split.train, split.test)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"data": {"set": "digits", "test_hue": 0.1}}, r"data\.test_hue: 0\.1 with the data set"),
        (
            {"devices": {"hue": 0.1, "partition": {"rule": "class-share"}}},
            r"hue: 0\.1 with the rule 'class-share'",
        ),
    ],
)
def test_what_has_no_hues_of_its_own_is_refused(
    changes: dict[str, dict[str, object]], told: str
) -> None:
    with pytest.raises(ValidationError, match=told):
        scenario(**changes)
