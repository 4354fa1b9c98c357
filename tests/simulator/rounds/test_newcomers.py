"""Devices that join and are excluded: no cohort has them, nothing of theirs is in the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.topics.rounds.entries import RoundOpened
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.scenario.model import Scenario
from tests.simulator.rounds.small import learn, prepared, small

pytestmark = pytest.mark.torch

Ran = tuple[list[StageRecord], list[EntryBody]]
JOINED = {"device-4", "device-5"}


def scenario(newcomers: str) -> Scenario:
    """Return `small` where two devices join three with the second stage."""
    groups = {"rule": "redrawn", "new_share": 1.0, "joining": 2, "newcomers": newcomers}
    return small(devices={"groups": groups}, rounds={"per_stage": 4, "cohort": 3})


@pytest.fixture(scope="module")
def excluded(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return learn(prepared(scenario("excluded")), tmp_path_factory.mktemp("excluded"))


@pytest.fixture(scope="module")
def included(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return learn(prepared(scenario("included")), tmp_path_factory.mktemp("included"))


def cohorts(ledger: list[EntryBody]) -> set[str]:
    opened = [body for body in ledger if isinstance(body, RoundOpened)]
    return {device for body in opened for device in (*body.cohort, *body.observers)}


def test_cohorts_are_drawn_from_the_devices_of_the_first_stage(
    excluded: Ran, included: Ran
) -> None:
    assert cohorts(excluded[1]) == {"device-1", "device-2", "device-3"}
    assert cohorts(included[1]) > cohorts(excluded[1])


def test_excluded_devices_send_nothing_and_their_data_are_not_counted(excluded: Ran) -> None:
    second = excluded[0][1]
    assert set(second.devices) > JOINED
    for name in JOINED:
        device = second.devices[name]
        assert device.arrived_samples > 0
        assert (device.bytes_up, device.bytes_down, device.counted_samples) == (0, 0, 0)
        assert not device.online


def test_what_the_joined_have_makes_another_model(excluded: Ran, included: Ran) -> None:
    (first, second), (first_too, second_too) = excluded[0], included[0]
    assert first.head == first_too.head
    assert second.head != second_too.head


def test_the_record_says_that_they_are_never_asked(excluded: Ran) -> None:
    assert any("2 devices that joined are never asked" in note for note in excluded[0][1].notes)


def test_light_agents_forget_them_too(excluded: Ran, tmp_path: Path) -> None:
    from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
    from tests.simulator.rounds.small import Watching

    what = prepared(scenario("excluded"))
    engine = LightEngine(what, tmp_path, Watching())
    try:
        records = [engine.learn(stage) for stage in what.plan.stages]
    finally:
        engine.close()
    assert [record.head for record in records] == [record.head for record in excluded[0]]
