"""The pooled reference of one run: the fleet's own features of all images, in one place."""

from __future__ import annotations

import numpy as np
from PIL import Image

from learning.numerics.counter_generator import integer_map
from learning.numerics.integer_features import project_integer, quantise_features
from learning.numerics.preprocessing import preprocess
from methods.stsa.settings import StsaSettings
from simulator.datasets import LabelledImages, Split
from simulator.demo.homes import PREPROCESSING
from simulator.demo.plan import Plan
from simulator.demo.reference import Features, Pooled, pooled_accuracy


def measure_pooled(split: Split, plan: Plan, settings: StsaSettings) -> list[float]:
    """Return the accuracy (0 to 1) of the pooled reference after each stage of `plan`."""
    names = split.train.class_names
    stages = [[names.index(name) for name in stage.class_names] for stage in plan.stages]
    train, test = (_pooled(part, settings) for part in (split.train, split.test))
    return pooled_accuracy(train, test, stages, settings.ridge_value)


def integer_features(images: LabelledImages, settings: StsaSettings) -> Features:
    """Return h (N, M) of all images, by NumPy, as `frozen.onnx` gives it on the devices."""
    pictures = [preprocess(Image.fromarray(pixels), PREPROCESSING) for pixels in images.images]
    backbone = np.stack(pictures).reshape(len(pictures), -1)
    matrix = integer_map(settings.map_seed, backbone.shape[1], settings.map_width)
    quantised = quantise_features(backbone)
    return project_integer(quantised, matrix, settings.feature_bits).astype(np.float64)


def _pooled(images: LabelledImages, settings: StsaSettings) -> Pooled:
    return Pooled(integer_features(images, settings), images.labels)
