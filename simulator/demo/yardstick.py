"""The pooled reference of one run: the fleet's own features of all images, in one place."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from PIL import Image

from export.runtime import LoadedModel
from learning.numerics.counter_generator import integer_map
from learning.numerics.integer_features import project_integer, quantise_features
from learning.numerics.preprocessing import preprocess
from methods.stsa.settings import StsaSettings
from simulator.datasets import LabelledImages
from simulator.demo.material import Material
from simulator.demo.plan import Plan
from simulator.demo.reference import Features, Pooled, pooled_accuracy

BATCH = 8
"""Images per run of the backbone, as on the devices: other batches may round otherwise."""


def measure_pooled(material: Material, plan: Plan, settings: StsaSettings) -> list[float]:
    """Return the accuracy (0 to 1) of the pooled reference after each stage of `plan`."""
    split = material.split
    names = split.train.class_names
    stages = [[names.index(name) for name in stage.class_names] for stage in plan.stages]
    planned = tuple(label for labels in stages for label in labels)
    train, test = (
        _pooled(part.take(part.of_classes(planned)), material, settings)
        for part in (split.train, split.test)
    )
    return pooled_accuracy(train, test, stages, settings.ridge_value)


def integer_features(
    images: LabelledImages, material: Material, settings: StsaSettings
) -> Features:
    """Return h (N, M) of all images: the backbone in ONNX Runtime, all that follows by NumPy.

    On the devices `frozen.onnx` gives the same.
    """
    backbone = np.concatenate(list(_backbone_features(images, material)))
    matrix = integer_map(settings.map_seed, backbone.shape[1], settings.map_width)
    quantised = quantise_features(backbone)
    return project_integer(quantised, matrix, settings.feature_bits).astype(np.float64)


def _backbone_features(
    images: LabelledImages, material: Material
) -> Iterator[npt.NDArray[np.float32]]:
    """Yield f (batch, d) of one batch after another."""
    model, preprocessing = LoadedModel(material.backbone), material.preprocessing
    for start in range(0, len(images), BATCH):
        pictures = [
            preprocess(Image.fromarray(pixels), preprocessing)
            for pixels in images.images[start : start + BATCH]
        ]
        (features,) = model.run({preprocessing.input_name: np.stack(pictures)}).values()
        yield features


def _pooled(images: LabelledImages, material: Material, settings: StsaSettings) -> Pooled:
    return Pooled(integer_features(images, material, settings), images.labels)
