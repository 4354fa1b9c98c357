"""Membership inference: tells whether a picture was among those that a head was solved from.

The likelihood ratio attack (Carlini et al., S&P 2022): shadow heads are solved from halves of the
pictures; for each picture the margins with it and without it are taken for normal, and the margin
under the head that is attacked says which is likelier.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.integer_features import QUANTISED_LARGEST
from fleetledger.methods.stsa.settings import RIDGE_PER_SQUARE

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Likelihoods:
    """How well members are told from others."""

    auc: float
    """0.5 is chance."""
    found: float
    """Share of the members found where 1 % of others are taken for members."""


def membership(
    features: Floats, classes: npt.NDArray[np.int64], seed: int, heads: int = 65
) -> Likelihoods:
    """Attack one ridge head on half of `features` (N, M) by `heads` - 1 shadow heads.

    The ridge is STSA's default for integer features up to 127.
    """
    ridge = RIDGE_PER_SQUARE * QUANTISED_LARGEST**2
    chance = np.random.default_rng(seed)
    wanted = np.eye(int(classes.max()) + 1)[classes]
    inside = np.argsort(chance.random((heads, len(features))), axis=1) < len(features) // 2
    margins = np.stack([_margins(features, wanted, rows, ridge) for rows in inside])
    shadows, members = margins[1:], inside[1:]
    with_it = _normal(shadows, members, margins[0])
    without = _normal(shadows, ~members, margins[0])
    scores, truth = with_it - without, inside[0]
    limit = np.quantile(scores[~truth], 0.99)
    order = np.argsort(np.argsort(scores))
    yes, no = int(truth.sum()), int((~truth).sum())
    auc = (order[truth].sum() - yes * (yes - 1) / 2) / (yes * no)
    return Likelihoods(float(auc), float((scores[truth] > limit).mean()))


def _margins(features: Floats, wanted: Floats, rows: npt.NDArray[np.bool_], ridge: float) -> Floats:
    """Return by how much the true class's score exceeds the next, for each picture."""
    H = features[rows]
    gram = H.T @ H + ridge * np.eye(H.shape[1])
    scores = features @ np.linalg.solve(gram, H.T @ wanted[rows])
    true = (scores * wanted).sum(1)
    return np.asarray(true - (scores - 1e9 * wanted).max(1))


def _normal(shadows: Floats, taken: npt.NDArray[np.bool_], seen: Floats) -> Floats:
    """Return the log density of `seen` among the shadows that `taken` picks, per picture."""
    counts = taken.sum(0).clip(min=1)
    mean = np.where(taken, shadows, 0).sum(0) / counts
    spread = np.where(taken, np.square(shadows - mean), 0).sum(0) / counts + 1e-12
    return np.asarray(-np.square(seen - mean) / (2 * spread) - np.log(spread) / 2)
