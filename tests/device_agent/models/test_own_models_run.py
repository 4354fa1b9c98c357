"""Models of somebody's own on a device: held to its rules, tested, run, and gone back from."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.host import ModelHost
from fleetledger.device_agent.models.inference.installed_model import SessionSettings
from fleetledger.device_agent.models.installer import Installer
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.export.noise import noise_inputs
from fleetledger.export.own_model import CutModel, OwnModelRequest, own_model
from fleetledger.export.package import ExportedModel
from fleetledger.schemas.file_reference import FileReference
from fleetledger.schemas.models import Manifest
from fleetledger.schemas.values import ClassName, Digest
from tests.device_agent import model_files as models
from tests.export.networks import data
from tests.export.own_networks import PICTURES, boxes, classifier, segmenter

BIRDS = OwnModelRequest(PICTURES, (ClassName("wren"), ClassName("robin"), ClassName("finch")))
PIXELS = OwnModelRequest(
    PICTURES, (ClassName("background"), ClassName("cat"), ClassName("dog")), answers="pixels"
)
RAW = OwnModelRequest(PICTURES, (), answers="raw")


def described(model: CutModel, wanted: OwnModelRequest, version: int, **changes: Any) -> Any:
    files = (model.frozen, model.head, model.golden, model.golden_scores)
    frozen, head, golden, scores = map(FileReference.of, files)
    fields = {
        "version": version,
        "method": "imported",
        "lineage": frozen.digest,
        "frozen": frozen,
        "head": head,
        "golden": golden,
        "golden_scores": scores,
        "class_names": wanted.class_names,
        "feature_width": model.feature_width,
        "logit_scale": 1.0,
        "preprocessing": wanted.preprocessing,
        "answers": wanted.answers,
        "output_shape": model.output_shape,
        "parity": model.parity,
        "tolerance": model.tolerance,
        "ledger_index": 1,
        "created_ns": 1,
    }
    manifest = Manifest.model_validate(fields | changes)
    return ExportedModel(manifest, {Digest.of(file): file for file in files})


@pytest.fixture
def blobs(tmp_path: Path) -> BlobFolder:
    return BlobFolder(tmp_path / "blobs")


@pytest.fixture
def installer(blobs: BlobFolder, tmp_path: Path) -> Installer:
    host = ModelHost(blobs, SessionSettings())
    slots = ModelSlots(tmp_path / "slots")
    return Installer(blobs, slots, host, lambda _: list(noise_inputs(PICTURES, 2)))


@pytest.mark.parametrize(
    ("network", "wanted"),
    [
        (classifier(softmax=True), BIRDS),
        (segmenter(), PIXELS),
        (segmenter(enlarges=False), PIXELS),
        (boxes(), RAW),
    ],
)
def test_it_is_installed_and_runs(
    blobs: BlobFolder, installer: Installer, network: Any, wanted: OwnModelRequest
) -> None:
    model = described(own_model(data(network), wanted), wanted, 1)
    event = installer.install(models.store_model(blobs, model))
    assert isinstance(event, inputs.ModelInstalled), event
    active = installer.active()
    assert active is not None
    sample = noise_inputs(PICTURES, 1)[0]
    if active.is_raw:
        assert active.raw_output(sample).shape == (4, 30)
    elif active.of_pixels:
        assert active.pixel_scores(sample).large.shape == (3, 12, 10)
    else:
        assert active.predict(sample[np.newaxis]).shape == (1, 3)


def test_the_next_head_on_the_same_frozen_part_is_another_slot(
    blobs: BlobFolder, installer: Installer
) -> None:
    first = described(own_model(data(classifier()), BIRDS), BIRDS, 1)
    second = described(own_model(data(classifier(seed=8)), BIRDS), BIRDS, 2)
    assert len(set(second.files) - set(first.files)) == 2  # the head, and its golden scores
    installer.install(models.store_model(blobs, first))
    event = installer.install(models.store_model(blobs, second))
    assert isinstance(event, inputs.ModelInstalled)
    assert event.previous_version == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"output_shape": (4, 31)}, "31"),
        ({"output_shape": (5, 30)}, "width of 5 was expected"),
        ({"feature_width": 9}, "9"),
    ],
)
def test_a_raw_output_of_another_shape_is_refused(
    blobs: BlobFolder, installer: Installer, changes: dict[str, Any], words: str
) -> None:
    model = described(own_model(data(boxes()), RAW), RAW, 1, **changes)
    event = installer.install(models.store_model(blobs, model))
    assert isinstance(event, inputs.ModelRefused)
    assert words in event.reason


def test_other_golden_scores_of_a_raw_output_fail_the_self_test(
    blobs: BlobFolder, installer: Installer
) -> None:
    model = own_model(data(boxes()), RAW)
    other = own_model(data(boxes("n")), RAW)
    scores = np.frombuffer(other.golden_scores[-960:], np.float32) + 1000
    wrong = other.golden_scores[:-960] + scores.astype(np.float32).tobytes()
    changed = CutModel(**{**vars(model), "golden_scores": wrong})
    event = installer.install(models.store_model(blobs, described(changed, RAW, 1)))
    assert isinstance(event, inputs.ModelRefused)
    assert event.rolled_back
    assert "stray by" in event.reason
