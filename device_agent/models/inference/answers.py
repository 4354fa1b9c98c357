"""Answers of a model to a frame, each with the version that gave it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Classification:
    """Classes of a whole frame, the best first."""

    names: tuple[str, ...]
    scores: tuple[float, ...]
    """Probability of each, from 0 to 1; together 1."""
    doubt: float
    """How unsure the model is, in the unit of `[detection]`: relative entropy, from 0 (certain) to
    1 (it might be anything); nats where its mode is `fixed-rise`."""
    version: int
    """The model's."""

    @property
    def name(self) -> str:
        """The best class."""
        return self.names[0]

    @property
    def score(self) -> float:
        """The probability of the best class."""
        return self.scores[0]


@dataclass(frozen=True, eq=False)
class Segmentation:
    """A class for each pixel of a frame."""

    mask: npt.NDArray[np.uint8] = field(repr=False)
    """(h, w) of the upright frame: rows of `names`; 255 where the model sees nothing."""
    names: tuple[str, ...]
    """Class of each value, `background` first."""
    doubt: float
    """As that of a classification, of the most uncertain tenth of the pixels."""
    version: int
    """The model's."""

    @property
    def shares(self) -> dict[str, float]:
        """Share of the pixels of each class that is there, the largest first."""
        counts = np.bincount(self.mask.ravel(), minlength=256)
        found = [int(value) for value in np.argsort(-counts, kind="stable") if counts[value]]
        return {
            self.names[value]: float(counts[value] / self.mask.size)
            for value in found
            if value < len(self.names)
        }


@dataclass(frozen=True, eq=False)
class Embedding:
    """Features of a frame: alike for frames that look alike to the frozen part."""

    features: npt.NDArray[np.float32] = field(repr=False)
    """(M,), or (M, h, w) of a model of pixels."""
    lineage: str
    """Digest of the frozen part; features of two are not comparable."""
    version: int
    """The model's."""


Tensors = dict[str, npt.NDArray[Any]]
"""Tensors by name."""
