"""Real programs take a model from a contribution to all devices, and both fan-outs bring all."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from benchmarks.speed.time_to_model.fan_out import FanOut
from benchmarks.speed.time_to_model.run import KINDS, P95, RATIOS, arrivals, spreads
from fleetledger.schemas.offers import DEFAULT_BLOCK_SIZE
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.brokers import MosquittoBroker, find_mosquitto

DEVICES = [DeviceId(f"device-{number}") for number in range(3)]
needs_mosquitto = pytest.mark.skipif(find_mosquitto() is None, reason="needs mosquitto on the PATH")


@pytest.mark.nightly
@pytest.mark.broker
@needs_mosquitto
@pytest.mark.timeout(300)
def test_times_stand_in_the_order_of_what_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{Path.cwd() / 'src'}:{Path.cwd()}")
    monkeypatch.chdir(tmp_path)
    found = arrivals(2, 1, 1, trial=False)
    for models in (found["first_model_s"], found["later_models_s"]):
        names = ("solved", "exported", "first_active", "median_active", "p95_active", "last_active")
        times = [models[name]["median"] for name in names]
        assert times == sorted(times)
        assert times[0] > 0
    assert found["later_models_s"]["trial_processor_s_each"]["max"] == 0


@pytest.mark.broker
@needs_mosquitto
@pytest.mark.timeout(120)
def test_every_receiver_gets_every_byte(tmp_path: Path) -> None:
    plan = FanOut(DEVICES, 3 * DEFAULT_BLOCK_SIZE + 1, processes=2)
    with MosquittoBroker(tmp_path / "broker", DEVICES) as broker:
        for kind, move in KINDS.items():
            moved = move(broker, plan, tmp_path / kind)
            assert moved.seconds > 0
            assert moved.processor_seconds > 0
    found = [tmp_path / kind / name for kind in KINDS for name in DEVICES]
    files = [file for file in found if file.parent.name not in {"bare", "hashed"}]
    assert {file.stat().st_size for file in files} == {plan.size}
    assert len({hashlib.sha256(file.read_bytes()).digest() for file in files}) == 1
    kept = [file.stat().st_size for file in found if file.parent.name == "hashed"]
    assert kept == [4 * DEFAULT_BLOCK_SIZE] * len(DEVICES)


def test_figures_have_a_median_and_a_range() -> None:
    found = spreads([{"seconds": 1.23456}, {"seconds": 3.0}, {"seconds": 2.0}])
    assert found == {"seconds": {"median": 2.0, "min": 1.23, "max": 3.0}}


def test_limits_are_of_a_time_at_most_and_of_a_ratio_at_least() -> None:
    assert P95.holds(4.9)
    assert not P95.holds(5.1)
    assert RATIOS[0].holds(0.91)
    assert not RATIOS[0].holds(0.89)
