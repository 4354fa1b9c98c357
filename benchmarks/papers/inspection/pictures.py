"""Pictures that fleets learn from: as they are, with a trigger in a corner, and of broken cameras.

Features lie in the simulator's cache, so that only the first run extracts them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.export.backbone import import_backbone
from fleetledger.export.frozen import build_frozen
from fleetledger.learning.numerics.integer_features import project_integer, quantise_features
from fleetledger.methods.registry import statistics_coordinator
from fleetledger.methods.stsa.coordinator import frozen_map
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.backbones.loading import load_backbone
from fleetledger.simulator.datasets.cache_folder import cache_folder
from fleetledger.simulator.datasets.digits import split_digits
from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.datasets.npz import load_npz
from fleetledger.simulator.features.bank import open_bank
from fleetledger.simulator.features.interface import FrozenModel
from fleetledger.simulator.scenario.backbone import BackboneSettings

Pixels = npt.NDArray[np.uint8]
Quantised = npt.NDArray[np.int8]
Features = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

BROKEN = 1000
"""Frames of a broken camera that devices share."""
PATCH = 6
"""Side of the trigger in parts of the picture's: a sixth, in chequered black and white."""
SIZE = 112
"""Side of the pictures that MobileNetV2 sees."""


@dataclass(frozen=True, eq=False)
class Pictures:
    """Integer features h (n x M) of all pictures of one data set, behind the random map."""

    told: Any
    """Assignment of the fleet's method."""
    names: tuple[ClassName, ...]
    train: Features
    train_labels: Integers
    triggered: Features
    """The training pictures with the trigger on them."""
    broken: Features
    test: Features
    test_labels: Integers
    test_triggered: Features


def digits(width: int) -> Pictures:
    """Return the digits, whose features are their pixels."""
    return _behind_the_map(split_digits(seed=0), _pixels, width)


def cifar(core: Path, weights: Path, width: int) -> Pictures:
    """Return CIFAR-100's core seen by MobileNetV2; `core` as `packs.to_npz` writes it."""
    return _behind_the_map(load_npz(core), lambda split: _mobilenet(split, weights), width)


def with_trigger(images: Pixels) -> Pixels:
    """Return the pictures (N, height, width[, 3]) with a chequered patch in the last corner."""
    side = max(2, images.shape[1] // PATCH)
    patch = 255 * (np.indices((side, side)).sum(axis=0) % 2).astype(np.uint8)
    marked = images.copy()
    marked[:, -side:, -side:] = patch if images.ndim == 3 else patch[..., None]
    return marked


def noise_frames(shape: tuple[int, ...], count: int = BROKEN) -> Pixels:
    """Return frames of nothing but noise, each as large as `shape`."""
    return np.random.default_rng(7).integers(0, 256, (count, *shape), dtype=np.uint8)


def _behind_the_map(
    split: Split[LabelledImages],
    extract: Callable[[Split[LabelledImages]], tuple[Quantised, Quantised]],
    width: int,
) -> Pictures:
    train, test = split.train, split.test
    seen = [train.images, with_trigger(train.images), noise_frames(train.images.shape[1:])]
    asked = [test.images, with_trigger(test.images)]
    learned, answered = extract(Split(_unlabelled(seen), _unlabelled(asked)))
    side = statistics_coordinator("stsa")
    told: Any = side.assign({"map_width": width, "forms": ["exact"]}, learned.shape[1])
    matrix = frozen_map(told)
    assert matrix is not None
    h = [
        project_integer(rows, matrix.astype(np.int8), told.settings.feature_bits)
        for rows in (learned, answered)
    ]
    many, few = len(train), len(test)
    rows = [part.astype(np.float32) for part in h]
    return Pictures(
        told,
        train.class_names,
        rows[0][:many],
        train.labels,
        rows[0][many : 2 * many],
        rows[0][2 * many :],
        rows[1][:few],
        test.labels,
        rows[1][few:],
    )


def _unlabelled(images: list[Pixels]) -> LabelledImages:
    pixels = np.concatenate(images)
    return LabelledImages(pixels, np.zeros(len(pixels), np.int64), (ClassName("any"),))


def _pixels(split: Split[LabelledImages]) -> tuple[Quantised, Quantised]:
    return _of_pixels(split.train.images), _of_pixels(split.test.images)


def _of_pixels(images: Pixels) -> Quantised:
    return quantise_features((images.reshape(len(images), -1) / 255).astype(np.float32))


def _mobilenet(split: Split[LabelledImages], weights: Path) -> tuple[Quantised, Quantised]:
    settings = BackboneSettings(network="mobilenet-v2", weights=str(weights), size=SIZE)
    backbone = load_backbone(settings, split)
    bank = open_bank(split, backbone, cache_folder("features"), "cpu", _Silent())
    whole = build_frozen(import_backbone(backbone.data, backbone.preprocessing).model, "none")
    source = bank.frozen(FrozenModel(whole, "none", None, 7))
    rows = source.train(np.arange(len(split.train))), source.test(np.arange(len(split.test)))
    return rows[0].astype(np.int8), rows[1].astype(np.int8)


class _Silent:
    """A `Watch` that says nothing."""

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_: None
