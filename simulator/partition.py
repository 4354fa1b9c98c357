"""How samples are dealt to devices: evenly at random, or skewed by class.

Both give a list with one ascending index array per device; every sample is in exactly one, and
every device has at least one. The same seed gives the same partition.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.errors import PartitionError

Indices = NDArray[np.int64]
MAX_DRAWS = 10_000
"""Attempts after which a skewed partition is given up: the skew leaves some device empty."""


def partition_evenly(samples: int, devices: int, seed: int) -> list[Indices]:
    """Deal `samples` at random; device sizes differ by at most one.

    Raises `PartitionError` when there are fewer samples than devices.
    """
    _check(samples, devices)
    order = np.random.default_rng(seed).permutation(samples)
    return [np.sort(part) for part in np.array_split(order, devices)]


def partition_by_dirichlet(
    labels: NDArray[np.int64], devices: int, beta: float, seed: int
) -> list[Indices]:
    """Deal samples so that each class is spread by shares drawn from Dirichlet(beta, …, beta).

    The routine of the STSA and LANDER programs: for each class, shares are drawn; devices that
    hold N/K samples or more get none; the rest is renormalised and the shuffled class is cut; all
    is drawn again until every device has a sample. `labels` is (N,). A small `beta` is a strong
    skew. Raises `PartitionError` when there are fewer samples than devices, `beta` is not
    positive, or no draw gives every device a sample.
    """
    _check(len(labels), devices)
    if not (np.isfinite(beta) and beta > 0):
        raise PartitionError(f"beta: {beta} is no concentration; give a number above 0, like 0.3")
    random = np.random.default_rng(seed)
    for _ in range(MAX_DRAWS):
        parts = _draw(labels, devices, beta, random)
        if all(len(part) for part in parts):
            return [np.sort(part) for part in parts]
    raise PartitionError(
        f"beta: {MAX_DRAWS} draws with {beta} all left one of {devices} devices without a sample "
        f"of {len(labels)}; give a larger beta or fewer devices"
    )


def _draw(
    labels: NDArray[np.int64], devices: int, beta: float, random: np.random.Generator
) -> list[Indices]:
    """Return one draw of all classes; a device may be empty."""
    parts: list[Indices] = [np.empty(0, np.int64) for _ in range(devices)]
    fair_share = len(labels) / devices
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        full = np.array([len(part) >= fair_share for part in parts])
        pieces = np.split(members, _cuts(_shares(full, beta, random), len(members)))
        parts = [np.concatenate(pair) for pair in zip(parts, pieces, strict=True)]
    return parts


def _shares(
    full: NDArray[np.bool_], beta: float, random: np.random.Generator
) -> NDArray[np.float64]:
    """Return shares in proportion, zero for full devices.

    Before the last sample is dealt some device is below the fair share, but with a tiny `beta`
    its share may have come out as zero; then the open devices share evenly.
    """
    shares: NDArray[np.float64] = random.dirichlet(np.full(len(full), beta))
    shares[full] = 0.0
    if not shares.sum() > 0:
        shares = (~full).astype(np.float64)
    return shares


def _cuts(shares: NDArray[np.float64], samples: int) -> NDArray[np.int64]:
    """Return where to cut `samples` items into consecutive pieces of the given shares.

    Dividing by the last sum makes it exactly one: else rounding could leave a sample to a full
    device at the end.
    """
    sums = np.cumsum(shares)
    cuts: NDArray[np.int64] = (sums[:-1] / sums[-1] * samples).astype(np.int64)
    return cuts


def _check(samples: int, devices: int) -> None:
    if devices < 1 or samples < devices:
        raise PartitionError(
            f"devices: {devices} cannot share {samples} samples with at least one each; "
            "give fewer devices or more samples"
        )
