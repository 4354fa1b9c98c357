"""The model that a seed ends with, under names that a person knows."""

from __future__ import annotations

import shutil
from pathlib import Path

from fleetledger.simulator.run.evaluation import MANIFEST, read_manifest


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
