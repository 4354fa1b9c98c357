"""Whether a variant may stand for the reference behind one head, and by what figures.

- What counts is accuracy, on held-out samples whose classes the head knows, as soon as there are
  enough of these; else the share of samples whose best class is another than the reference's, of
  which accuracy can lose no more.
- int8 may lose one point, fp16 a fifth of one.
- A device tests what it runs against the golden answers of the reference. So that it finds a wrong
  file, and not the bits that a variant has less, the tolerances of a variant are what it strays
  here and, beyond that, what any device may.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fleetledger.export.errors import ModelFileError
from fleetledger.export.golden import Golden
from fleetledger.export.head import head_scores
from fleetledger.export.variants.feature_distance import Floats, VariantFeatures, strays
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.file_reference import FileReference
from fleetledger.schemas.values import ClassName
from fleetledger.schemas.variants import Variant, VariantName

LEAST_SAMPLES = 100
"""Of fewer, a point could not be told."""
MOST_LOST: dict[VariantName, float] = {"fp16": 0.002, "int8": 0.01}
FEATURE_TOLERANCE = 0.05
"""What a device's self-test allows the reference's features."""


@dataclass(frozen=True)
class VariantFile:
    """A variant that was made: its name and its file."""

    name: VariantName
    frozen: FileReference


@dataclass(frozen=True)
class JudgedVariants:
    """Variants that may stand for the reference behind a head, and why others may not."""

    admitted: tuple[Variant, ...]
    left_out: tuple[str, ...]
    """A sentence for each, with its figures."""


NO_VARIANTS = JudgedVariants((), ())


@dataclass(frozen=True, eq=False)
class HeadToJudge:
    """A head's file, the classes of its rows, and what a device's self-test allows its scores."""

    file: bytes
    class_names: Sequence[ClassName]
    tolerance: float


def judge(
    files: Sequence[VariantFile], features: VariantFeatures, head: HeadToJudge, golden: Golden
) -> JudgedVariants:
    """Measure variants behind a head; raise `ModelFileError` where there are too few samples."""
    if len(features.reference) < LEAST_SAMPLES:
        raise ModelFileError(
            f"variants: {count_of(len(features.reference), 'sample')} to measure on; at least "
            f"{LEAST_SAMPLES} tell a point"
        )
    expected = head_scores(head.file, features.reference).argmax(axis=1)
    golden_scores = head_scores(head.file, golden.features)
    admitted, left_out = [], []
    for item in files:
        found = head_scores(head.file, features.variants[item.name]).argmax(axis=1)
        scores = head_scores(head.file, features.golden[item.name])
        strayed = float(np.abs(scores - golden_scores).max())
        variant = Variant(
            name=item.name,
            frozen=item.frozen,
            samples=len(expected),
            agreement=float((found == expected).mean()),
            accuracy_lost=_accuracy_lost(found, expected, features.class_names, head.class_names),
            tolerance=strayed + head.tolerance,
            feature_tolerance=strays(features.golden[item.name], golden.features)
            + FEATURE_TOLERANCE,
        )
        reason = refusal(variant)
        left_out += [reason] if reason else []
        admitted += [] if reason else [variant]
    return JudgedVariants(tuple(admitted), tuple(left_out))


def lost(variant: Variant) -> float:
    """Return the share of right answers that a variant loses, or at most loses."""
    if variant.accuracy_lost is not None:
        return variant.accuracy_lost
    return 1.0 - variant.agreement


def refusal(variant: Variant) -> str:
    """Return why a variant may not stand for the reference, in words; empty where it may."""
    most = MOST_LOST[variant.name]
    if lost(variant) <= most + 1e-9:
        return ""
    return (
        f"{variant.name} is left out: it {told(variant)}; at most {100 * most:g} may be "
        "lost. Calibrate it on more images like those of the devices"
    )


def told(variant: Variant) -> str:
    """Return the figures of a variant in words that follow its name."""
    samples = count_of(variant.samples, "sample")
    agrees = f"has the reference's best class for {variant.agreement:.1%} of {samples}"
    if variant.accuracy_lost is None:
        return f"{agrees}, of classes that nobody named"
    points = 100 * variant.accuracy_lost
    change = "loses" if points >= 0 else "gains"
    return f"{agrees}, and {change} {abs(points):.2f} points of accuracy"


def _accuracy_lost(
    found: Floats, expected: Floats, folders: Sequence[str], rows: Sequence[ClassName]
) -> float | None:
    """Return the loss on samples whose folder names a row; None where these are too few."""
    row_of = {str(name): row for row, name in enumerate(rows)}
    truth = np.array([row_of.get(name, -1) for name in folders])
    known = truth >= 0
    if int(known.sum()) < LEAST_SAMPLES:
        return None
    right = (expected[known] == truth[known]).mean() - (found[known] == truth[known]).mean()
    return float(right)
