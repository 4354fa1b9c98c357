"""Cuts a test part off a data set that has none of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.errors import DatasetError


def stratified_split(
    labels: NDArray[np.int64], test_share: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of training and test samples, ascending, of every class the same share.

    The share is rounded per class; the same seed gives the same split. Raises `DatasetError` unless
    `test_share` is in (0, 1).
    """
    if not 0 < test_share < 1:
        raise DatasetError(f"test_share: {test_share} is not a share; give one between 0 and 1")
    random = np.random.default_rng(seed)
    chosen = [np.empty(0, np.int64)]
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        chosen.append(members[: round(test_share * len(members))])
    test = np.sort(np.concatenate(chosen)).astype(np.int64)
    return np.setdiff1d(np.arange(len(labels)), test), test
