"""`fleetledger model export`: a version of the model as one file for other programs."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from typer.testing import CliRunner

from fleetledger.coordinator.cli import models
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.models.joined import joined_model
from fleetledger.export.errors import OutputFileError
from fleetledger.schemas.models import DesiredModel, Manifest
from fleetledger.schemas.presence import Welcome
from fleetledger.schemas.values import Digest
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.shell_harness import (
    PREPROCESSING,
    MemoryCoordinator,
    ScriptedDevice,
    contribution_of,
    write_home,
)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """The home of a coordinator that serves, and has one model."""
    broker = InMemoryBroker()
    write_home(tmp_path, "stsa", map_width=20, form="exact")
    coordinator = MemoryCoordinator(tmp_path, broker)
    device = ScriptedDevice("dev-1", broker, coordinator)
    coordinator.begin("dev-1", classes=("circle", "square"))
    device.born()
    device.wait_for(Welcome)
    features = np.random.default_rng(0).integers(0, 128, (12, 20)).astype(np.float32)
    device.give(*contribution_of(coordinator, features, ["circle", "square"] * 6))
    device.wait_for(DesiredModel)
    yield tmp_path
    device.close()
    coordinator.close()


def test_the_file_gives_the_scores_of_the_pair(home: Path) -> None:
    made = joined_model(home, 1)
    inputs = np.random.default_rng(1).random((5, *PREPROCESSING.shape)).astype(np.float32)
    run = onnxruntime.InferenceSession(made.model, providers=["CPUExecutionProvider"])
    scores, probabilities = run.run(["scores", "probabilities"], {"image": inputs})
    assert scores.shape == (5, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
    assert made.difference <= 1e-5


def test_the_command_writes_the_model_and_what_one_has_to_know(home: Path) -> None:
    out = home / "model.onnx"
    result = CliRunner().invoke(models.app, ["export", "1", "--out", str(out), "--home", str(home)])
    assert result.exit_code == 0, result.output
    assert "model 1 for 2 classes" in result.output
    assert f"wrote {out} and {home / 'model.json'}" in result.output
    told = json.loads((home / "model.json").read_text(encoding="utf-8"))
    assert told["model"] == Digest.of(out.read_bytes())
    assert told["class_names"] == ["circle", "square"]
    assert (told["version"], told["method"], told["input"]) == (1, "stsa", "image")
    assert told["outputs"] == ["scores", "probabilities"]
    assert told["preprocessing"] == PREPROCESSING.model_dump(mode="json")
    manifest = joined_model(home, 1).manifest
    assert told["manifest"] == manifest.digest
    assert Manifest.read(manifest.canonical_bytes()) == manifest


def test_an_unknown_version_is_refused(home: Path) -> None:
    with pytest.raises(CommandError, match="version: 7 is not a model"):
        joined_model(home, 7)


def test_a_place_that_cannot_be_written_is_refused_first(tmp_path: Path) -> None:
    arguments = ["export", "1", "--out", str(tmp_path / "model.bin"), "--home", str(tmp_path)]
    refused = CliRunner().invoke(models.app, arguments).exception
    assert isinstance(refused, OutputFileError)
    assert "use .onnx" in str(refused)


def test_it_is_signed_for_other_programs(home: Path) -> None:
    out, key = home / "model.onnx", home / "exporting.pem"
    words = ["export", "1", "--out", str(out), "--bundle", str(key), "--home", str(home)]
    done = CliRunner().invoke(models.app, words, catch_exceptions=False)
    assert "to be verified with exporting.pub" in " ".join(done.output.split())
    payload = json.loads((home / "model.sig").read_bytes())["dsseEnvelope"]["payload"]
    resources = json.loads(base64.b64decode(payload))["predicate"]["resources"]
    assert {item["name"]: item["digest"] for item in resources} == {
        name: Digest.of((home / name).read_bytes()) for name in ("model.json", "model.onnx")
    }
