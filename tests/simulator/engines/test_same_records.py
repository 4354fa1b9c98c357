"""Three engines tell the same of a scenario, field by field, but for what is measured.

Agents that are told what to do, agents that act by themselves, and programs over a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from fnmatch import fnmatch
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.engines.interface import Engine, Prepared
from fleetledger.simulator.engines.mqtt.engine import MqttEngine
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.scenario.loading import load_scenario
from fleetledger.simulator.scenario.model import asked_of_time
from fleetledger.simulator.scenario.shipped import shipped_names
from tests.simulator.rounds.small import Watching

pytestmark = pytest.mark.broker

OWN_TO_AN_ENGINE = {
    "version": "a stage that takes long has models on the way, and one for parts after its end",
    "manifest": "names the ledger's entries by index, and they come in the order of the clock",
    "fleet_seconds": "the fleet's clock is virtual in one engine and that of the wall in the other",
    "seconds": "wall time, by the phases that an engine can tell apart",
    "peak_memory_mib": "of one process, or of all programs",
    "devices.*.bytes_up": "control messages come as often as the clock lets them",
    "devices.*.bytes_down": "as bytes_up",
    "devices.*.compute_seconds": "wall time of the work, or processor time of a process",
    "devices.*.answered_seconds": "by the fleet's clock",
    "transitions.*.seconds": "by the fleet's clock",
    "rounds.*.seconds": "wall time",
    "rounds.*.fleet_seconds": "by the fleet's clock",
    "rounds.*.training_seconds": "as the devices measured them",
    "proxy.gradient_bytes": "of a transport that only one engine can read",
    "proxy.model_bytes": "as gradient_bytes",
    "proxy.scored": "the score of a stage's last round comes before its end or after it",
    "accuracy_on_devices": "only programs are asked for it",
    "notes": "also tell how an engine measured",
}
"""Fields that may differ, and why; `*` is any device or place in a list."""
QUICK = ("digits-tiny",)
TRAINING = (
    "digits-dcid",
    "digits-fbl",
    "digits-fed-ewc",
    "digits-fed-lwf",
    "digits-fedavg",
    "digits-fedavg-task",
    "digits-fedhaf",
    "digits-icarl",
    "digits-lga",
    "digits-repetition",
    "digits-stsa-adapted",
    "sensors-fedavg",
    "text-tiny",
)
"""Need torch, also where it only learns the encoder."""
BY_DAY = ("digits-fedhaf",)
"""Features of a frozen network. The others are by night: `mqtt/` trains by rounds, and programs of
DCID and LGA are in `tests/end_to_end`."""
SUMS = ("digits", "digits-blurry", "digits-domains", "digits-pooled", "sensors")
ROLLOUTS = ("digits-rollout-", "digits-adapter")
NOT_HERE = {
    "demo": "its programs are asked for what only they can tell; else it is `digits`",
    "digits-1000": "a thousand programs",
    "digits-asynchronous": "which answers meet in a round depends on the clock",
    "digits-joint": "no fleet",
    "digits-private": "a thousand programs, whose coordinator draws its noise anew",
    **dict.fromkeys(
        [
            name
            for name in shipped_names()
            if name.startswith(("digits-rollout-", "digits-adapter"))
        ],
        "they learn as `digits` does; their rollouts are run in tests/simulator/rollouts",
    ),
}
"""Shipped scenarios that need no file, and cannot be compared."""
STAGES = 2
"""What is learned of a scenario that trains; further rounds and stages are like these."""
_SMALL = ("devices.count=2", "rounds.per_stage=2")
_TRAINS = (*_SMALL, "method.settings.epochs=1")
SMALL = dict.fromkeys(TRAINING, _TRAINS) | {
    "digits-fbl": (
        *_TRAINS,
        "rounds.cohort=3",
        "data.scenes.train=100",
        "data.scenes.test=20",
    ),
    "digits-fedhaf": (*_SMALL, "data.per_class=40", "data.test_per_class=10"),
    "digits-lga": (*_TRAINS, "rounds.cohort=2", "method.settings.inversion_steps=20"),
    "digits-stsa-adapted": (_SMALL[0], "method.first_stage.rounds=2"),
    "text-tiny": (
        "devices.count=3",
        "data.text.speakers=3",
        "data.text.windows=200",
        "data.text.test_windows=50",
        "backbone.characters.epochs=1",
    ),
}
"""Devices enough to add up. All are in every cohort, since no round waits for one that only looks:
what it sees depends on the clock."""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def prepared(name: str) -> Prepared:
    scenario = load_scenario(name, SMALL.get(name, ()))
    what = PreparedSeed.load(scenario, scenario.seeds[0]).prepare(Watching())
    few = replace(what.plan, stages=what.plan.stages[:STAGES])
    return replace(what, plan=few) if name in TRAINING else what


def learn(make: Callable[..., Engine], what: Prepared, folder: Path) -> list[StageRecord]:
    with closing(make(what, folder, Watching())) as engine:
        return [engine.learn(stage) for stage in what.plan.stages]


def flat(record: StageRecord) -> dict[str, Any]:
    """A record's fields by path, without those that are an engine's own."""
    content = record.model_dump(mode="json")
    content["transitions"].sort(key=itemgetter("device", "why"))  # they come as the clock lets them
    fields = dict(_paths("", content))
    return {
        path: value
        for path, value in fields.items()
        if not any(fnmatch(path, p) or fnmatch(path, f"{p}.*") for p in OWN_TO_AN_ENGINE)
    }


def _paths(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list) and value:
        named = value.items() if isinstance(value, dict) else enumerate(value)
        for name, item in named:
            yield from _paths(f"{path}.{name}".removeprefix("."), item)
    else:
        yield path, value


def assert_equal(what: Prepared, folder: Path) -> None:
    programs = learn(MqttEngine, what, folder / "programs")
    for make in (
        (InProcessEngine,) if asked_of_time(what.scenario) else (InProcessEngine, LightEngine)
    ):
        in_process = learn(make, what, folder / make.__name__)
        for one, many in zip(in_process, programs, strict=True):
            assert flat(one) == flat(many), f"{make.__name__}, stage {one.stage}"


@pytest.mark.nightly  # opened by reports, below, by day
@pytest.mark.parametrize("name", QUICK)
def test_a_small_scenario_is_recorded_alike(name: str, tmp_path: Path):
    assert_equal(prepared(name), tmp_path)


def test_reports_that_open_a_stage_are_recorded_alike(tmp_path: Path):
    scenario = load_scenario("digits-tiny", ("stages.opened_by=reports",))
    assert_equal(PreparedSeed.load(scenario, scenario.seeds[0]).prepare(Watching()), tmp_path)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("name", SUMS)
def test_sums_are_recorded_alike(name: str, tmp_path: Path):
    assert_equal(prepared(name), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        name if name in BY_DAY else pytest.param(name, marks=pytest.mark.nightly)
        for name in TRAINING
    ],
)
@pytest.mark.torch
def test_training_is_recorded_alike(name: str, tmp_path: Path):
    assert_equal(prepared(name), tmp_path)


def test_every_shipped_scenario_that_needs_no_file_is_compared():
    compared = {*QUICK, *SUMS, *TRAINING, *NOT_HERE}
    assert compared == {n for n in shipped_names() if not load_scenario(n).data.known.on_disk}


def test_every_field_that_an_engine_has_of_its_own_is_one():
    known = set(StageRecord.model_fields)
    assert all(pattern.partition(".")[0] in known for pattern in OWN_TO_AN_ENGINE)
