"""Accuracy, agreement, size and time of the reference, of fp16 and of int8 behind the same head.

    python -m benchmarks.papers.networks.mobilenet_v2 --size 112 --out mobilenet.onnx --weights FILE
    python -m benchmarks.papers.frozen_variants.run mobilenet.onnx cifar100_core.npz     # 4 minutes

The first names a backbone with its preprocessing beside it (`.json`), the second the pack (its
layout: `benchmarks.papers.packs.to_npz`). The head is solved from features of the reference, as a
fleet solves it; the calibration images, and those that the gate measures on, are not among them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.papers.packs.to_npz import decode
from fleetledger.export.backbone import import_backbone
from fleetledger.export.frozen import build_frozen
from fleetledger.export.golden import build_golden, read_golden
from fleetledger.export.head import build_head, head_scores
from fleetledger.export.preprocessing_file import load_preprocessing
from fleetledger.export.runtime import LoadedModel
from fleetledger.export.variants.feature_distance import VariantFeatures, features_of, strays
from fleetledger.export.variants.gate import HeadToJudge, VariantFile, judge
from fleetledger.export.variants.variant_maker import made_variants
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.learning.numerics.ridge import solve_ridge
from fleetledger.methods.stsa.coordinator import COORDINATOR
from fleetledger.schemas.file_reference import FileReference
from fleetledger.schemas.models import FEATURES, AnyPreprocessing
from fleetledger.schemas.values import ClassName
from fleetledger.schemas.variants import VariantName

RESULTS = RESULTS_FOLDER / "frozen_variants.json"
Floats = npt.NDArray[np.float32]
Images = npt.NDArray[np.uint8]
CALIBRATED, HELD_OUT = 200, 1000
DEVICE_TOLERANCE = 0.05
RUNS = 60


@dataclass(frozen=True, eq=False)
class Pack:
    """Images (N, H, W, 3) and labels, to learn from and to test with, and the classes' names."""

    train_x: Images
    train_y: npt.NDArray[np.int64]
    test_x: Images
    test_y: npt.NDArray[np.int64]
    names: tuple[ClassName, ...]


@dataclass(frozen=True)
class Row:
    """What was measured of the reference, or of a variant."""

    bytes: int
    features_stray: float
    accuracy: float
    agreement: float
    largest_score_difference: float
    milliseconds: float
    """Processor time of one image through the frozen part, one thread, median."""
    of_reference: float
    """That time as a share of the reference's in the same rounds, median."""


def read_pack(path: Path) -> Pack:
    """Read a pack of CIFAR-100; raise `KeyError` where an array is missing."""
    with np.load(path, allow_pickle=False) as pack:
        names = tuple(ClassName(str(name)) for name in pack["fine_names"])
        return Pack(
            decode(pack["train_x_delta"]),
            pack["train_y"].astype(np.int64),
            decode(pack["test_x_delta"]),
            pack["test_y"].astype(np.int64),
            names,
        )


def prepared(images: Images, preprocessing: AnyPreprocessing) -> npt.NDArray[Any]:
    """Return images as the network's input (N, ...)."""
    return np.stack([preprocess(Image.fromarray(image), preprocessing) for image in images])


def frozen_of(backbone: Path, preprocessing: AnyPreprocessing, columns: int) -> bytes:
    """Return the frozen part that a fleet would have of a backbone."""
    imported = import_backbone(backbone.read_bytes(), preprocessing)
    after = COORDINATOR.feature_map(
        COORDINATOR.assign({"map_width": columns}, imported.feature_width)
    )
    return build_frozen(imported.model, after.kind, after.matrix, feature_bits=after.feature_bits)


def solved(pack: Pack, rows: npt.NDArray[np.int64], features: Floats, width: int) -> bytes:
    """Return the file of the ridge head of some training images."""
    settings = COORDINATOR.assign({"map_width": features.shape[1]}, width).settings
    wide = features.astype(np.float64)
    targets = np.eye(len(pack.names))[pack.train_y[rows]]
    weights = solve_ridge(wide.T @ wide, wide.T @ targets, settings.ridge_value)
    return build_head(weights.T)


def features_through(model: LoadedModel, images: Images, of: AnyPreprocessing) -> Floats:
    """Return features (N, M), a few images at a time."""
    parts = [
        model.run({of.input_name: prepared(images[at : at + 50], of)})[FEATURES]
        for at in range(0, len(images), 50)
    ]
    return np.concatenate(parts)


def timed(models: Mapping[str, LoadedModel], sample: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return processor seconds of single images, all models in turn so that all meet the same."""
    taken: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(RUNS + 5):
        for name, model in models.items():
            began = time.process_time()
            for _ in range(4):
                model.run(sample)
            if turn >= 5:
                taken[name].append((time.process_time() - began) / 4)
    return taken


def measured(
    files: Mapping[str, bytes], head: bytes, pack: Pack, of: AnyPreprocessing
) -> dict[str, Row]:
    """Measure the reference and the variants on the test images."""
    models = {name: LoadedModel(data) for name, data in files.items()}
    sample = {of.input_name: prepared(pack.test_x[:1], of)}
    seconds = timed(models, sample)
    features = {name: features_through(model, pack.test_x, of) for name, model in models.items()}
    scores = {name: head_scores(head, found) for name, found in features.items()}
    reference, rows = scores["reference"], {}
    for name, found in scores.items():
        shares = np.array(seconds[name]) / np.array(seconds["reference"])
        rows[name] = Row(
            bytes=len(files[name]),
            features_stray=round(strays(features[name], features["reference"]), 4),
            accuracy=round(100 * float((found.argmax(1) == pack.test_y).mean()), 2),
            agreement=round(100 * float((found.argmax(1) == reference.argmax(1)).mean()), 2),
            largest_score_difference=round(float(np.abs(found - reference).max()), 4),
            milliseconds=round(1000 * float(np.median(seconds[name])), 3),
            of_reference=round(float(np.median(shares)), 2),
        )
    return rows


def gate(
    variants: Mapping[VariantName, bytes],
    head: HeadToJudge,
    features: VariantFeatures,
    golden: bytes,
) -> dict[str, Any]:
    """Return what the gate says of the variants behind the head."""
    files = [VariantFile(name, FileReference.of(data)) for name, data in variants.items()]
    said = judge(files, features, head, read_golden(golden))
    admitted = {
        item.name: {
            "agreement": round(100 * item.agreement, 2),
            "points_lost": round(100 * (item.accuracy_lost or 0.0), 2),
            "tolerance": round(item.tolerance, 4),
        }
        for item in said.admitted
    }
    return {"admitted": admitted, "left_out": list(said.left_out)}


def study(backbone: Path, pack: Pack, columns: int, train: int) -> dict[str, Any]:
    """Make the variants, and measure them."""
    preprocessing = load_preprocessing(backbone.with_suffix(".json"))
    frozen = frozen_of(backbone, preprocessing, columns)
    order = np.random.default_rng(0).permutation(len(pack.train_y))
    calibration, held_out = order[:CALIBRATED], order[CALIBRATED : CALIBRATED + HELD_OUT]
    learned = order[CALIBRATED + HELD_OUT :][:train]
    began = time.process_time()
    samples = prepared(pack.train_x[calibration], preprocessing)
    variants = made_variants(frozen, preprocessing.input_name, samples)
    seconds = time.process_time() - began
    model = LoadedModel(frozen)
    head = solved(
        pack, learned, features_through(model, pack.train_x[learned], preprocessing), 1280
    )
    golden = build_golden(frozen, preprocessing)
    kept = features_of(
        frozen,
        variants,
        preprocessing.input_name,
        prepared(pack.train_x[held_out], preprocessing),
        [pack.names[label] for label in pack.train_y[held_out]],
        read_golden(golden),
    )
    rows = measured({"reference": frozen, **variants}, head, pack, preprocessing)
    return {
        "images": {
            "calibration": len(calibration),
            "gate": len(held_out),
            "learned": len(learned),
            "test": len(pack.test_y),
        },
        "columns": columns,
        "seconds_to_make": round(seconds, 1),
        "bytes_kept_for_heads": len(kept.file()),
        "rows": {name: asdict(row) for name, row in rows.items()},
        "gate": gate(variants, HeadToJudge(head, pack.names, DEVICE_TOLERANCE), kept, golden),
    }


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("backbone", type=Path)
    parser.add_argument("pack", type=Path)
    parser.add_argument("--columns", type=int, default=1250, help="M, the width of the map")
    parser.add_argument("--train", type=int, default=18_800, help="images that the head is of")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = study(options.backbone, read_pack(options.pack), options.columns, options.train)
    result = {
        "claim": "frozen_variants",
        "machine": describe_machine("numpy", "onnx", "onnxruntime"),
        **found,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for name, row in found["rows"].items():
        print(name, row)
    print(found["gate"])


if __name__ == "__main__":
    main()
