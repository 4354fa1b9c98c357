"""Answers of an exported model: its `head.onnx` in ONNX Runtime, as the devices run it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fleetledger.device_agent.models.inference.installed_model import (
    InferenceSession,
    SessionSettings,
)
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.models import FEATURES, SCORES, Manifest
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.features.extraction import BatchExtractor
from fleetledger.simulator.features.interface import Floats, Indices
from fleetledger.simulator.features.providers import choose_provider

MANIFEST = "manifest.json"
_AT_ONCE = 1024
"""Samples whose features are in memory at a time."""


def read_manifest(model_folder: Path) -> Manifest:
    """Return the manifest in a model's folder; raise `RunError` where there is none."""
    path = model_folder / MANIFEST
    try:
        return Manifest.read(path.read_bytes())
    except (OSError, SchemaError) as error:
        raise RunError(f"{path}: no model of a stage: {error}; run the stage again") from error


def predict(
    model_folder: Path,
    class_names: Sequence[ClassName],
    features: Callable[[Indices], Floats],
    asked: Indices,
) -> NDArray[np.int32]:
    """Return the label of the best score of each sample in `asked`, (n,).

    `features` gives h (k, M) of samples by index; labels index `class_names`, and the manifest says
    by name which class a row of the head is. Raises `RunError` for a class that is none of them.
    """
    manifest = read_manifest(model_folder)
    head = InferenceSession(model_folder / manifest.head.digest, SessionSettings())
    label_of_row = labels_of(manifest.class_names, class_names)
    parts = [
        label_of_row[head.run(SCORES, features(asked[first : first + _AT_ONCE])).argmax(axis=1)]
        for first in range(0, len(asked), _AT_ONCE)
    ]
    return np.concatenate([np.empty(0, np.int32), *parts])


class ExportedFeatures:
    """Features of test pictures by the model's own first file, as the devices run it."""

    def __init__(self, model_folder: Path, prepared: Prepared) -> None:
        manifest = read_manifest(model_folder)
        self._test = prepared.split.test
        self._extractor = BatchExtractor(
            (model_folder / manifest.frozen.digest).read_bytes(),
            FEATURES,
            prepared.preprocessing,
            choose_provider(prepared.scenario.engine.device),
        )

    def __call__(self, indices: Indices) -> Floats:
        """Return h (n, d) of test samples; raise `DatasetError` or `LoadError`."""
        samples = [(self._test, int(index)) for index in indices]
        return np.concatenate([rows for rows, _ in self._extractor.batches(samples)])


def labels_of(rows: Sequence[ClassName], class_names: Sequence[ClassName]) -> NDArray[np.int32]:
    """Return the label of each name in `rows`, (n,); raise `RunError` for one without."""
    label_of = {name: label for label, name in enumerate(class_names)}
    strange = [name for name in rows if name not in label_of]
    if strange:
        raise RunError(
            f"model: it answers {strange[0]!r}, which is no class of the data set; go on with the "
            "data set that the run was begun with"
        )
    return np.array([label_of[name] for name in rows], np.int32)


def copy_model(model_folder: Path, target: Path) -> None:
    """Copy a stage's model to the folder `target`, in place of what is there.

    manifest.json, frozen.onnx, head.onnx, golden.safetensors and golden_scores.safetensors; the
    manifest tells their digests.
    """
    manifest = read_manifest(model_folder)
    names = {
        "frozen.onnx": manifest.frozen,
        "head.onnx": manifest.head,
        "golden.safetensors": manifest.golden,
        "golden_scores.safetensors": manifest.golden_scores,
    }
    beside = target.with_name(f".{target.name}")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    shutil.copyfile(model_folder / MANIFEST, beside / MANIFEST)
    for name, file in names.items():
        shutil.copyfile(model_folder / file.digest, beside / name)
    shutil.rmtree(target, ignore_errors=True)
    beside.rename(target)
