"""Pictures of other cameras, and numbers of pictures by which a candidate tells them apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.models import AnyPreprocessing
from fleetledger.simulator.errors import EngineError

_Inputs = npt.NDArray[Any]


@dataclass(frozen=True)
class Threshold:
    """A bound between two sorts of pictures, by one number of each."""

    limit: float
    below: bool
    """Whether the sort that is meant lies below it."""


def dimmed(picture: Image.Image, brightness: float) -> Image.Image:
    """Return a picture as a camera of less brightness sees it; mode and size stay."""
    return picture.point(lambda value: round(value * brightness))


def preprocessed(pictures: Sequence[Image.Image], spec: AnyPreprocessing) -> _Inputs:
    """Return pictures as a model sees them (N, ...)."""
    return np.stack([preprocess(picture, spec) for picture in pictures])


def brightest(inputs: _Inputs) -> npt.NDArray[np.float64]:
    """Return the largest value of each sample (N,)."""
    return np.asarray(inputs.reshape(len(inputs), -1).max(axis=1), np.float64)


def mean(inputs: _Inputs) -> npt.NDArray[np.float64]:
    """Return the mean value of each sample (N,)."""
    return np.asarray(inputs.reshape(len(inputs), -1).mean(axis=1), np.float64)


def between(
    meant: _Inputs, others: _Inputs, number: Callable[[_Inputs], npt.NDArray[np.float64]]
) -> Threshold:
    """Return a bound on whose one side nearly all of `meant` lie, and none of `others`.

    Raises `EngineError` where half of `meant` or more cannot be told from others.
    """
    inside, outside = number(meant), number(others)
    middle, below = float(np.median(inside)), bool(np.median(inside) < np.median(outside))
    nearest = float(outside.min() if below else outside.max())
    if (middle < nearest) is not below or middle == nearest:
        raise EngineError(
            "rollout.candidate.kind: pictures of this data set cannot be told apart by how bright "
            "they are; take another kind"
        )
    return Threshold((middle + nearest) / 2, below)
