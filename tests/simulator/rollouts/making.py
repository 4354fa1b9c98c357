"""A model of digits without a fleet, and entries of a rollout made by hand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from fleetledger.export.frozen import plain_frozen
from fleetledger.export.golden import build_golden
from fleetledger.export.noise import noise_inputs
from fleetledger.export.package import Lineage, SolvedHead, export_model
from fleetledger.schemas.models import Manifest
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.backbones.pixels import pixels_backbone
from fleetledger.simulator.datasets.images import LabelledImages
from fleetledger.simulator.datasets.loading import DataSettings, load_split
from fleetledger.simulator.rollouts.brightness import between, brightest, dimmed, mean, preprocessed
from fleetledger.simulator.rollouts.candidates import CandidateMaterial

BRIGHTNESS = 0.4


@dataclass(frozen=True, eq=False)
class Digits:
    """A model of all ten digits, and test pictures for it."""

    material: CandidateMaterial
    usual: np.ndarray
    """Preprocessed test pictures (N, ...)."""
    dim: np.ndarray
    """The same from another camera."""
    rows: np.ndarray
    """The right row of each (N,)."""

    @property
    def manifest(self) -> Manifest:
        return self.material.manifest


@cache
def digits() -> Digits:
    split = load_split(DataSettings(set="digits"), 1)
    backbone = pixels_backbone(split, None)
    spec = backbone.preprocessing
    assert isinstance(split.test, LabelledImages)
    pictures = [split.test.picture(index) for index in range(len(split.test))]
    usual = preprocessed(pictures, spec)
    dim = preprocessed([dimmed(picture, BRIGHTNESS) for picture in pictures], spec)
    names = tuple(ClassName(name) for name in split.train.class_names)
    frozen = plain_frozen(backbone.data)
    lineage = Lineage(frozen, build_golden(frozen, spec), spec)
    train = preprocessed([split.train.picture(i) for i in range(len(split.train))], spec)
    solved = SolvedHead(3, "stsa", names, _ridge(train, split.train.labels, len(names)), 7, 0)
    model = export_model(lineage, solved)
    files = [model.files[file.digest] for file in (model.manifest.frozen, model.manifest.head)]
    material = CandidateMaterial(
        model.manifest,
        *files,
        dark=between(dim, usual, brightest),
        made_up=between(usual, noise_inputs(spec, 8), mean),
    )
    return Digits(material, usual, dim, split.test.labels)


def _ridge(pictures: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    features = pictures.reshape(len(pictures), -1).astype(np.float64)
    wanted = labels[:, np.newaxis] == np.arange(classes)
    gram = features.T @ features + np.eye(features.shape[1])
    return np.linalg.solve(gram, features.T @ wanted).T
