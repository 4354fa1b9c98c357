"""What `auto` has measured is kept; what is stale or damaged is told and measured again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fleetledger.simulator.datasets.cache_folder import CACHE_VARIABLE
from fleetledger.simulator.scenario.sections import EngineSettings
from fleetledger.simulator.virtual import calibrations
from fleetledger.simulator.virtual import training as pools
from fleetledger.simulator.virtual.calibrations import CalibrationFolder
from fleetledger.simulator.virtual.training import TrainerPoolSettings

pytestmark = pytest.mark.torch

KIND: dict[str, str | int] = {"loss": "ComposedLoss(...)", "batch": "64, from 2 on", "agents": 8}
VERSIONS: dict[str, str | int] = {"torch": "2.13.0", "threads": 1}


def found(loop: float = 3.0, stack: float = 2.0) -> calibrations.Calibration:
    from fleetledger.learning.training.calibration import Calibration

    return Calibration(loop, stack)


@pytest.fixture
def folder(tmp_path: Path) -> CalibrationFolder:
    return CalibrationFolder(tmp_path / "kept")


def file_of(folder: CalibrationFolder) -> Path:
    (path,) = folder.folder.glob("*.json")
    return path


def test_what_was_measured_is_found_by_another_process(folder: CalibrationFolder) -> None:
    assert folder.find(KIND, VERSIONS) is None
    folder.keep(KIND, VERSIONS, found())
    again = CalibrationFolder(folder.folder)
    assert again.find(KIND, VERSIONS) == found()
    assert again.find({**KIND, "agents": 4}, VERSIONS) is None
    folder.keep(KIND, VERSIONS, found(stack=9.0))
    assert again.find(KIND, VERSIONS) == found(stack=9.0)


def test_another_machine_has_calibrations_of_its_own(
    folder: CalibrationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.keep(KIND, VERSIONS, found())
    monkeypatch.setattr(calibrations, "_machine", lambda: {"processor": "another", "cores": 2})
    assert folder.find(KIND, VERSIONS) is None


def test_a_stale_one_is_told_and_not_used(
    folder: CalibrationFolder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.keep(KIND, VERSIONS, found())
    assert folder.find(KIND, {**VERSIONS, "torch": "2.14.0", "threads": 2}) is None
    assert "is stale: threads was 1 and is 2, torch was 2.13.0 and is 2.14.0" in caplog.text
    folder.keep(KIND, {**VERSIONS, "torch": "2.14.0"}, found(stack=1.0))
    assert folder.find(KIND, {**VERSIONS, "torch": "2.14.0"}) == found(stack=1.0)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\x00\xff",
        b"[]",
        b'{"format": 1}',
        b'{"format": 2, "kind": {}, "versions": {}, "loop_seconds": 1, "stack_seconds": 1}',
        b'{"format": 1, "kind": {}, "versions": {}, "loop_seconds": NaN, "stack_seconds": 1}',
        b'{"format": 1, "kind": {}, "versions": {}, "loop_seconds": -1, "stack_seconds": 1}',
        b" " * (1 << 17),
    ],
)
def test_a_damaged_one_is_told_and_not_used(
    folder: CalibrationFolder, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    folder.keep(KIND, VERSIONS, found())
    file_of(folder).write_bytes(text)
    assert folder.find(KIND, VERSIONS) is None
    assert f"{file_of(folder)}: is damaged" in caplog.text
    assert "it is measured again" in caplog.text


def test_one_under_a_foreign_name_is_told_and_not_used(
    folder: CalibrationFolder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.keep(KIND, VERSIONS, found())
    path = file_of(folder)
    content = json.loads(path.read_text())
    content["kind"]["agents"] = 4
    path.write_text(json.dumps(content))
    assert folder.find(KIND, VERSIONS) is None
    assert "is of other work" in caplog.text


def test_a_folder_that_cannot_be_written_is_told_and_training_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "kept").write_text("a file")
    folder = CalibrationFolder(tmp_path / "kept")
    folder.keep(KIND, VERSIONS, found())
    assert "cannot be written" in caplog.text
    assert folder.find(KIND, VERSIONS) is None


def test_the_oldest_make_room(folder: CalibrationFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrations, "_MOST_FILES", 2)
    for agents in (1, 2, 4):
        folder.keep({**KIND, "agents": agents}, VERSIONS, found())
        for path in folder.folder.glob("*.json"):
            status = path.stat()
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - 10**9))
    kept = [agents for agents in (1, 2, 4) if folder.find({**KIND, "agents": agents}, VERSIONS)]
    assert kept == [2, 4]


def test_a_scenario_keeps_them_in_the_cache_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    settings = TrainerPoolSettings.of(EngineSettings(training="auto", device="cpu", stack_mib=3))
    torch_settings = settings.for_torch()
    assert torch_settings.calibrations == CalibrationFolder(tmp_path / "training-calibrations")
    assert torch_settings.stack_bytes == 3 << 20


@pytest.mark.parametrize(
    ("asked", "where", "way"),
    [
        (None, "cpu", "loop"),
        (None, "cuda", "auto"),
        ("stack", "cpu", "stack"),
        ("loop", "cuda", "loop"),
    ],
)
def test_a_gpu_trains_the_way_that_is_faster_unless_a_scenario_says_how(
    monkeypatch: pytest.MonkeyPatch, asked: str | None, where: str, way: str
) -> None:
    monkeypatch.setattr(pools, "torch_device", lambda device: where)
    assert TrainerPoolSettings.of(EngineSettings.model_validate({"training": asked})).way == way
