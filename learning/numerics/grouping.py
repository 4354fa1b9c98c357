"""Groups of samples that are reported as if each were a device of its own.

More groups hold a class, so its covariance is estimated better. Which sample falls into which
group is drawn from a seed: the same seed and samples give the same groups on every machine.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.counter_generator import random_words

Integers = npt.NDArray[np.int64]


def split_per_class(
    classes: Integers, groups: int, minimum: int, seed: bytes, together: Integers | None = None
) -> Integers:
    """Return each sample's group (n,): every class is shuffled and dealt out in turn.

    A class with n_c samples, of `classes` (n,), fills min(groups, n_c // minimum) groups, at least
    one, so that no group has fewer than `minimum` of a class which has that many. Samples of a
    class with the same number in `together` (n,) go into one group; a number below zero is of a
    sample that goes alone.
    """
    bound = np.full(len(classes), -1) if together is None else together
    result = np.empty(len(classes), np.int64)
    for index in np.unique(classes):
        members = np.flatnonzero((classes == index) & (bound < 0))
        filled = max(1, min(groups, len(members) // minimum))
        order = _shuffled(len(members), seed + b"/%d" % index)
        result[members[order]] = np.arange(len(members)) % filled
        blocks = np.flatnonzero((classes == index) & (bound >= 0))
        result[blocks] = np.unique(bound[blocks], return_inverse=True)[1] % groups
    return result


def split_shuffled(samples: int, groups: int, seed: bytes) -> Integers:
    """Return each sample's group (n,): all are shuffled and cut into equal chunks.

    The last chunk takes the remainder, as in the published program: also where there are fewer
    samples than groups, and the others are empty.
    """
    chunk = samples // groups
    place = np.arange(samples)
    result = np.empty(samples, np.int64)
    result[_shuffled(samples, seed)] = (
        np.minimum(place // chunk, groups - 1) if chunk else groups - 1
    )
    return result


def _shuffled(count: int, seed: bytes) -> Integers:
    number = int.from_bytes(hashlib.sha256(seed).digest()[:8], "little")
    return np.argsort(random_words(number, 0, count), kind="stable")
