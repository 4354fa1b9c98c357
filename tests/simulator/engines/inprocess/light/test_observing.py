"""Light agents that only look say what ones that act say, and remember the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    NothingReported,
)
from fleetledger.coordinator.topics.devices.entries import DeviceProblem
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from tests.simulator.engines.inprocess.light.both import Learned, both, by_round, learn, means
from tests.simulator.rounds.scenes import finding
from tests.simulator.rounds.small import QUICK_LGA, prepared, small

pytestmark = pytest.mark.torch


def assert_same(timed: Learned, light: Learned) -> None:
    assert by_round(light.ledger) == by_round(timed.ledger)
    assert means(light) == means(timed)
    assert len(means(timed)) > 0
    assert light.models == timed.models
    for one, two in zip(timed.records, light.records, strict=True):
        assert set(one.novelty_checks) == set(two.novelty_checks)
        assert one.novelty_checks
        assert two.seconds["looking"] > 0
        for name, device in one.devices.items():
            other = two.devices[name]
            assert (other.counted_samples, other.stored_samples) == (
                device.counted_samples,
                device.stored_samples,
            )


@pytest.mark.parametrize("settings", [{"preset": "without-psr"}, {"preset": "fedavg-exemplars"}])
def test_lga_without_a_proxy(settings: dict[str, Any], tmp_path: Path) -> None:
    """Detection by scores: a look decides when exemplars are chosen."""
    settings = {"memory_per_class": 3, **settings}
    method = {"name": "lga", "settings": settings}
    devices = {"count": 4, "partition": {"rule": "class-share", "image_share": 0.5}}
    what = prepared(small(method=method, devices=devices, rounds={"per_stage": 3, "cohort": 2}))
    timed, light = both(what, tmp_path)
    assert_same(timed, light)
    nothing = [
        body for body in light.bodies(NothingReported) if body.nothing.observation is not None
    ]
    assert len(nothing) >= 6
    trained = [body.part.round.observation for body in light.bodies(ContributionAccepted)]
    assert None not in trained


def test_owners_who_keep_gradients_are_named_once(tmp_path: Path) -> None:
    method = {"name": "lga", "settings": QUICK_LGA | {"old_model": "random"}}
    timed, light = both(prepared(small(method=method, rounds={"cohort": 2})), tmp_path)
    assert_same(timed, light)
    problems = light.bodies(DeviceProblem)
    assert len(problems) == 3
    assert all("publish_gradients = false" in body.text for body in problems)


@pytest.mark.usefixtures("own_cache")
def test_a_class_for_every_pixel(tmp_path: Path) -> None:
    timed, light = both(prepared(finding()), tmp_path)
    assert_same(timed, light)


@pytest.mark.usefixtures("own_cache")
def test_workers_train_on_masks_and_tell_what_was_seen(tmp_path: Path) -> None:
    what = prepared(finding())
    alone = learn(LightEngine, what, tmp_path / "alone")
    crowd = prepared(finding(engine={"workers": 1, "device": "cpu"}))
    helped = learn(LightEngine, crowd, tmp_path / "helped")
    assert_same(alone, helped)
