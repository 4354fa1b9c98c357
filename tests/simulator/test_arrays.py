"""Fleets that train networks on arrays themselves: light agents, and the model that devices get."""

import pytest
from rich.console import Console

from fleetledger.export.runtime import LoadedModel
from fleetledger.schemas.models import FEATURES, SCORES
from fleetledger.simulator.datasets.sensors import ACTIVITIES, make_sensors
from fleetledger.simulator.run.runs import run_scenario
from fleetledger.simulator.scenario.loading import load_scenario

pytestmark = pytest.mark.torch

FILES = ("frozen.onnx", "head.onnx")
NAMES = tuple(ACTIVITIES)
CHANGES = (
    "devices.count=2",
    "data.options={train=24,test=12,people=2}",
    "rounds.per_stage=3",
    "method.settings.epochs=4",
)


def test_devices_train_a_network_on_windows_and_get_it_as_onnx(tmp_path, monkeypatch):
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))
    out = tmp_path / "run"
    results = run_scenario(load_scenario("sensors-fedavg", CHANGES), out, Console(quiet=True))
    first, _ = results.first.stages
    assert first.accuracy > 0.5  # of three activities; chance is a third
    folder = out / "seed-1" / "model"
    frozen, head = (LoadedModel((folder / name).read_bytes()) for name in FILES)
    test = make_sensors(None, 1, train=24, test=12, people=2).test
    scores = head.run({FEATURES: frozen.run({"array": test.arrays})[FEATURES]})[SCORES]
    right = scores.argmax(axis=1) == [NAMES.index(test.class_names[label]) for label in test.labels]
    assert right.mean() == pytest.approx(results.first.stages[-1].accuracy)
