"""How far Gamma's gradients at pictures are from those that were sent: equation (9) of LGA.

    sum over tensors W of || dL/dW (x) - G_W ||^2

The gradient of the last layer is a column times a row, d h^T, with a row for each class that is
reserved, and its distance needs one product with what was sent, and no matrix of that size:

    || d h^T - G ||^2 = |d|^2 |h|^2 - 2 d^T G h + |G|^2
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fleetledger.methods.lga.encoding import LAYERS, Encoding, Gradients, LayerSlope


@dataclass(frozen=True, eq=False)
class _Sent:
    """What was sent of the rows that are asked for."""

    rows: Tensor
    gradients: Gradients
    labels: Tensor
    squared: Tensor
    """|G|^2 (k,) of the last layer's weight."""

    @classmethod
    def of(cls, rows: Tensor, gradients: Gradients, labels: Tensor) -> _Sent:
        squared = gradients[f"{LAYERS}.weight"].square().sum(dim=(1, 2))
        return cls(rows, gradients, labels, squared)

    def picked(self, rows: Tensor) -> _Sent:
        """Return what of this belongs to `rows`."""
        gradients = {name: values[rows] for name, values in self.gradients.items()}
        return _Sent(rows, gradients, self.labels[rows], self.squared[rows])


class GradientDistance:
    """The squared distance of pictures' gradients from sets that were sent (rows, ...)."""

    def __init__(self, encoding: Encoding, sent: Gradients, labels: Tensor) -> None:
        self._encoding = encoding
        rows = torch.arange(len(labels), device=labels.device)
        self._every = self._asked = _Sent.of(rows, sent, labels)

    def __call__(self, points: Tensor, rows: Tensor) -> Tensor:
        """Return the distances (k,) of points (k, n) from what was sent in `rows` (k,)."""
        sent, parts = self._of(rows), []
        for layer, slope in self._encoding.slopes(self.pictures(points), sent.labels).items():
            if layer == LAYERS:
                parts.append(_outer(slope, sent))
            else:
                parts.append(_far(slope.sums @ slope.seen.mT, sent.gradients[f"{layer}.weight"]))
            parts.append(_far(slope.sums.sum(dim=2), sent.gradients[f"{layer}.bias"]))
        return torch.stack(parts).sum(dim=0)

    def pictures(self, points: Tensor) -> Tensor:
        """Return points (k, n) as pictures (k, c, s, s)."""
        return points.reshape(-1, self._encoding.channels, self._encoding.side, self._encoding.side)

    def _of(self, rows: Tensor) -> _Sent:
        """Return what was sent in some rows: most often the same as were asked for before."""
        if len(rows) == len(self._every.rows):
            return self._every
        if not torch.equal(rows, self._asked.rows):
            self._asked = self._every.picked(rows)
        return self._asked


def _far(gradients: Tensor, sent: Tensor) -> Tensor:
    return (gradients.flatten(1) - sent.flatten(1)).square().sum(dim=1)


def _outer(slope: LayerSlope, sent: _Sent) -> Tensor:
    """Return || d h^T - G ||^2 (k,) of sums d (k, classes, 1) and features h (k, n, 1)."""
    # A row times a matrix: a matrix times a column takes a processor seven times as long.
    along = slope.sums.mT @ sent.gradients[f"{LAYERS}.weight"]
    lengths = slope.sums.square().sum(dim=(1, 2)) * slope.seen.square().sum(dim=(1, 2))
    return lengths - 2 * (along * slope.seen.mT).sum(dim=(1, 2)) + sent.squared
