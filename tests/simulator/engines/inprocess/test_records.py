"""What a stage leaves: bytes, seconds, samples, and the model's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.ledger.verify import verify
from fleetledger.schemas.models import Manifest
from fleetledger.schemas.values import Digest
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from tests.simulator.engines.inprocess.small import Quiet, fleet_of, learn_all


def test_everything_that_arrived_is_counted_and_timed(tmp_path: Path, cache: Path) -> None:
    prepared = fleet_of(cache)
    for stage, record in zip(prepared.plan.stages, learn_all(prepared, tmp_path), strict=True):
        assert record.stage == stage.number
        assert record.class_names == prepared.plan.names(stage.classes)
        assert set(record.model_classes) == {*prepared.plan.names(prepared.plan.seen(stage.number))}
        for name, device in record.devices.items():
            assert device.arrived_samples == len(stage.devices[name].indices)
            assert device.counted_samples == device.arrived_samples
            assert 0 < (device.answered_seconds or 0) < 10
            assert device.compute_seconds > 0
        phases = ("features", "statistics", "intake", "solve", "export", "ledger", "fleet")
        assert sum(record.seconds[name] for name in phases) == pytest.approx(
            record.seconds["total"]
        )
        assert min(record.seconds[name] for name in phases) > 0
        assert record.answers == len(record.devices)
        assert record.peak_memory_mib > 50


def test_the_model_folder_holds_what_its_manifest_names(tmp_path: Path, cache: Path) -> None:
    prepared = fleet_of(cache)
    engine = InProcessEngine(prepared, tmp_path, Quiet())
    for stage in prepared.plan.stages:
        record = engine.learn(stage)
        folder = engine.model_folder(record)
        data = (folder / "manifest.json").read_bytes()
        assert Digest.of(data) == record.manifest
        manifest = Manifest.read(data)
        assert manifest.class_names == record.model_classes
        for file in manifest.files:
            assert Digest.of((folder / file.digest).read_bytes()) == file.digest
        assert len(list(folder.iterdir())) == 1 + len(manifest.files)
    coordinator = engine._fleet.coordinator
    report = verify(coordinator.engine.ledger, coordinator.blobs)
    assert report.mismatch is None
    assert report.entries == coordinator.state.size
    engine.close()


def test_progress_is_told(tmp_path: Path, cache: Path) -> None:
    prepared, watch = fleet_of(cache), Quiet()
    engine = InProcessEngine(prepared, tmp_path, watch)
    engine.learn(prepared.plan.stages[0])
    engine.close()
    assert watch.seen[0] == "stage 1 of 2"
    assert watch.seen[-1] == "3 of 3"
