"""A whole dense network: a body that makes features of pixels, and a head with a background row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy.typing as npt

from fleetledger.learning.networks.head import row_shapes
from fleetledger.learning.networks.network import Shape, check_tensors
from fleetledger.learning.networks.plan import Arrays, initial_arrays
from fleetledger.learning.networks.segmentation.head import initial_pixel_head
from fleetledger.learning.networks.segmentation.layers import DenseBody

FrozenNorm = Literal["none", "trunk", "all"]


@dataclass(frozen=True)
class SegmentationNetwork:
    """A body that makes features of pixels, and a row of the head for background and each class."""

    body: DenseBody
    frozen_norm: FrozenNorm = "none"
    """The part whose batch normalisation follows its running statistics while training too, and
    leaves them: for small batches. It must have been trained before: a decoder that begins is not
    normalised by first statistics."""

    @property
    def width(self) -> int:
        """Number of features d of a pixel, the length of the head's rows."""
        return self.body.width

    @property
    def stackable(self) -> bool:
        """Agents train one after another: grouped convolutions are slow."""
        return False

    def initial(self, seed: int, class_names: Sequence[str]) -> Arrays:
        """Return the first tensors from `seed`, equal on every machine, buffers among them.

        The head has 1 + `class_names` rows; the first is the background's.
        """
        body = initial_arrays(self.body.plan(), seed)
        return body | initial_pixel_head(self.width, class_names, seed)

    def shapes(self, classes: int) -> dict[str, Shape]:
        """Return the shape of every tensor with that many classes beside the background."""
        shapes = {plan.name: plan.shape for plan in self.body.plan()}
        return shapes | row_shapes("linear", self.width, 1 + classes)

    def check(self, arrays: Mapping[str, npt.NDArray[Any]], classes: int) -> None:
        """Raise `NetworkError` naming the first tensor that is missing, foreign or misshapen."""
        check_tensors(arrays, self.shapes(classes))
