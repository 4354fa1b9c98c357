"""Measuring how uncertain the model that runs here is about new images."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from device_agent.core.requests import Measure
from device_agent.images import Picture, read_pictures
from device_agent.inference import Model
from learning.numerics.detection import Head, uncertainty


def head_of(model: Model) -> Head:
    """Return the rows and the inverse temperature of a model's head."""
    return Head(tuple(model.manifest.class_names), model.manifest.logit_scale)


def measure(request: Measure, model: Model, folder: Path, batch: int) -> tuple[float, ...]:
    """Return the value of each image that can be read; raise `LoadError` if the model does not run.

    An image that is gone or does not decode is left out: counting tells its owner.
    """
    values: list[float] = []
    for start in range(0, len(request.images), batch):
        pictures = [
            Picture(folder / image.path, image.digest)
            for image in request.images[start : start + batch]
        ]
        outcomes = read_pictures(pictures, model.manifest.preprocessing)
        pixels = [outcome.pixels for outcome in outcomes if outcome.pixels is not None]
        if pixels:
            scores = model.scores(model.features(np.stack(pixels)))
            seen = uncertainty(scores, head_of(model), request.known, request.rules)
            values += seen.tolist()
    return tuple(values)
