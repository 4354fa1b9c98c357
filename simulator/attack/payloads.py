"""Feature vectors out of the payloads of methods of statistics: what a coordinator can read.

Class sums give the mean of a class. A Gram matrix gives more: G = H^T H leaves H open up to a
rotation, Y = Q H. Features are not negative and many of them are zero, and rotations that keep all
of that are permutations. `rows_of` finds one by turns: what is negative changes its sign, and the
rotation nearest to that is taken (Procrustes).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.device_agent.core.companions import with_companions
from fleetledger.device_agent.core.records import ImageToCount
from fleetledger.learning.numerics.compact import CompactFactor
from fleetledger.learning.numerics.exact_sum import ScaledIntegers
from fleetledger.learning.numerics.triangles import symmetric, unpack_upper
from fleetledger.methods.pooled.messages import ClassFeatures, ClassMoments
from fleetledger.methods.registry import statistics_coordinator, statistics_device
from fleetledger.methods.statistics.part import PartContext
from fleetledger.methods.statistics.sides import FeatureMap
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.simulator.attack.subject import Subject
from fleetledger.simulator.attack.table import KnownAttack

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
_CLASS = ClassName("class")
_TURNS = 3000
_ENOUGH = 1e-9
"""Share of squares below zero at which a rotation is found."""


def map_of(attack: KnownAttack, subject: Subject) -> FeatureMap:
    """Return what follows the backbone under a method of statistics."""
    side = statistics_coordinator(attack.method)
    return side.feature_map(side.assign(attack.settings, subject.all_features.shape[1]))


def features_told(attack: KnownAttack, subject: Subject, rows: Rows) -> Floats:
    """Return the feature vectors (k, M) that a coordinator reads from the part of `rows`."""
    side = statistics_coordinator(attack.method)
    assignment = side.assign(attack.settings, subject.all_features.shape[1])
    h = subject.quantised(rows, side.feature_map(assignment))
    context = PartContext(seed=b"attack")
    made = statistics_device(attack.method).finish(assignment, h, [_CLASS] * len(rows), context)
    return _read(side.check(assignment, made.payload), assignment)


def _read(part: Any, assignment: Any) -> Floats:  # noqa: ANN401 - of any method
    """Return the feature vectors that the statistics of a part give."""
    if isinstance(part, ClassFeatures):
        return part.features.astype(np.float64)
    if isinstance(part, ClassMoments):
        return np.asarray(part.sums / part.counts[:, None])
    gram = getattr(part, "gram", None)
    if isinstance(gram, CompactFactor):
        exponents = gram.exponents.astype(np.int32)[:, None]
        rows = unpack_upper(gram.values, len(exponents), gram.columns).astype(np.float64)
        means = part.correlation.to_float() / np.sqrt(part.counts)[:, None]
        return rows_of(np.concatenate([means, np.ldexp(rows, exponents)]))
    if isinstance(gram, ScaledIntegers):
        return rows_of(_root(symmetric(gram.to_float(), assignment.columns), part.samples))
    if isinstance(gram, np.ndarray):
        triangle = gram.astype(np.float64)
        samples = int(part.classes.counts.sum())
        return rows_of(_root(symmetric(triangle, assignment.columns), samples))
    if gram is not None:
        return np.asarray(gram.sums.to_float() / gram.counts[:, None])
    return np.asarray(part.sums / part.counts[:, None])


def _root(gram: Floats, samples: int) -> Floats:
    """Return Y (n, M) with Y^T Y = G."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray((vectors[:, -samples:] * np.sqrt(np.maximum(values[-samples:], 0))).T)


def rows_of(turned: Floats, turns: int = _TURNS) -> Floats:
    """Return H (n, M), in any order, of Y = Q H; H is not negative, and many of it are zero."""
    drawn = np.random.default_rng(0).normal(size=(len(turned), len(turned)))
    found = np.linalg.qr(drawn)[0] @ turned
    for _ in range(turns):
        left, _, right = np.linalg.svd(np.abs(found) @ turned.T)
        found = left @ right @ turned
        if np.square(np.minimum(found, 0)).sum() <= _ENOUGH * np.square(found).sum():
            break
    return np.asarray(found)


def difference(subject: Subject, rows: Rows, least: int) -> tuple[Floats, Rows]:
    """Return the mean h (1, M) by which two revisions of a part differ, and of which images it is.

    The owner takes the first of `rows` out of its class; the agent lets companions go with it until
    they are `least`.
    """
    told = {Digest.of(b"%d" % row): "part" for row in rows}
    images = [ImageToCount(str(row), Digest.of(b"%d" % row), _CLASS, "part") for row in rows[1:]]
    stay = {int(image.path) for image in with_companions(images, told, least)}
    gone = np.array([row for row in rows if row not in stay], np.int64)
    sums = [
        subject.quantised(some, FeatureMap()).astype(np.float64).sum(0, keepdims=True)
        for some in (rows, np.array(sorted(stay), np.int64))
    ]
    return (sums[0] - sums[1]) / len(gone), gone
