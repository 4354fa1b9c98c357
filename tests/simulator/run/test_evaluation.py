"""The answers of an exported head, by class name."""

from pathlib import Path

import numpy as np
import pytest

from fleetledger.device_agent.errors import LoadError
from fleetledger.export.backbone import import_backbone
from fleetledger.export.frozen import build_frozen
from fleetledger.export.golden import build_golden
from fleetledger.export.package import Lineage, SolvedHead, export_model
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.run.evaluation import copy_model, predict

PREPROCESSING = Preprocessing(
    mode="L", size=(2, 2), mean=(0.0,), deviation=(1.0,), input_name="image"
)
H = np.random.default_rng(3).normal(size=(2500, 4)).astype(np.float32)
WEIGHTS = np.random.default_rng(4).normal(size=(3, 4)).astype(np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model whose rows are pear, apple, plum."""
    backbone = import_backbone(scaling_backbone(PREPROCESSING), PREPROCESSING)
    frozen = build_frozen(backbone.model, "none", None, feature_bits=7)
    lineage = Lineage(frozen, build_golden(frozen, PREPROCESSING), PREPROCESSING)
    names = tuple(ClassName(name) for name in ("pear", "apple", "plum"))
    exported = export_model(lineage, SolvedHead(1, "stsa", names, WEIGHTS, 1, 0))
    folder = tmp_path / "exported"
    folder.mkdir()
    (folder / "manifest.json").write_bytes(exported.manifest.canonical_bytes())
    for digest, data in exported.files.items():
        (folder / digest).write_bytes(data)
    return folder


def features(indices):
    return H[indices]


def test_rows_of_the_head_become_labels_by_name(model: Path):
    names = ("apple", "cherry", "pear", "plum")
    asked = np.arange(0, 2500, 2)
    answers = predict(model, names, features, asked)
    assert answers.dtype == np.int32
    row_names = ("pear", "apple", "plum")
    expected = [names.index(row_names[np.argmax(WEIGHTS @ H[index])]) for index in asked]
    assert answers.tolist() == expected


def test_nobody_asked_is_no_answer(model: Path):
    names = ("apple", "pear", "plum")
    assert predict(model, names, features, np.empty(0, np.int64)).shape == (0,)


def test_a_class_that_the_data_set_lacks_is_told(model: Path):
    with pytest.raises(RunError, match="'plum'"):
        predict(model, ("apple", "pear"), features, np.arange(3))


def test_a_folder_without_a_model_is_told(tmp_path: Path):
    with pytest.raises(RunError, match="no model of a stage"):
        predict(tmp_path, ("apple",), features, np.arange(3))


def test_a_head_that_is_missing_is_told(model: Path):
    for path in model.iterdir():
        if path.name != "manifest.json":
            path.unlink()
    with pytest.raises(LoadError):
        predict(model, ("apple", "pear", "plum"), features, np.arange(3))


def test_the_copy_has_names_that_a_person_knows(model: Path, tmp_path: Path):
    copy_model(model, tmp_path / "model")
    copy_model(model, tmp_path / "model")  # in place of what is there
    assert {path.name for path in (tmp_path / "model").iterdir()} == {
        "frozen.onnx",
        "golden.safetensors",
        "golden_scores.safetensors",
        "head.onnx",
        "manifest.json",
    }
