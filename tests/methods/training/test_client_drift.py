"""How far answers lie apart, beside the plain formula."""

from __future__ import annotations

import numpy as np
import pytest

from fleetledger.learning.numerics.differences import DifferenceGrid
from fleetledger.learning.numerics.weights import WeightGrid
from fleetledger.methods.training.client_drift import Spread

SHAPES = {
    "a.weight": (300, 200),
    "b.bias": (7,),
    "c.running_mean": (40_000,),
    "d.weight": (50_001,),
}
"""Blocks within one tensor, of several, and of statistics of batch norm alone."""


def arrays(seed: int, scale: float) -> dict[str, np.ndarray]:
    drawn = np.random.default_rng(seed)
    return {
        name: (scale * place * drawn.normal(size=shape)).astype(np.float32)
        for place, (name, shape) in enumerate(SHAPES.items(), 1)
    }


@pytest.mark.parametrize("from_sent", [False, True])
def test_the_drift_is_that_of_the_formula_whatever_tensors_share_a_block(from_sent: bool) -> None:
    sent = arrays(0, 1.0)
    grid = (DifferenceGrid if from_sent else WeightGrid).around(sent)
    spread = Spread(grid, sent, steps_from_sent=from_sent)
    answers, weights = [], [1, 5, 2]
    for seed, weight in enumerate(weights, 1):
        moved = {name: sent[name] + array for name, array in arrays(seed, 1e-3).items()}
        exact = {
            name: np.rint(
                (moved[name] - (sent[name] if from_sent else 0)) / 2.0 ** grid.exponents[name]
            )
            for name in SHAPES
        }
        steps = np.concatenate([exact[name].ravel() for name in grid.places]).astype(np.float64)
        distance = 0.0
        for block in spread.blocks:
            twice = np.stack([steps[block.place], steps[block.place]])
            one, other = spread.squares(block, twice)
            assert one == other
            distance += one
        spread.add(distance, weight)
        answers.append(
            {
                name: exact[name] * 2.0 ** grid.exponents[name] + (sent[name] if from_sent else 0.0)
                for name in SHAPES
            }
        )
    mean = {
        name: sum(w * a[name] for w, a in zip(weights, answers, strict=True)) / sum(weights)
        for name in SHAPES
    }
    counted = [name for name in SHAPES if "running" not in name]
    apart = sum(
        w * sum(float(((a[name] - mean[name]) ** 2).sum()) for name in counted)
        for w, a in zip(weights, answers, strict=True)
    ) / sum(weights)
    step = sum(float(((mean[name] - sent[name]) ** 2).sum()) for name in counted)
    assert spread.relative_to(mean) == pytest.approx(np.sqrt(apart / step), rel=1e-5)
