"""Methods as sums of terms: the one place where the loss of a method is put together.

The defaults are those of the papers. The first task has no old model: it is `finetuning` for all of
them, with `released_first` for FBL's program.
"""

from __future__ import annotations

from fleetledger.learning.losses.segmentation.composition import WeightedTerm
from fleetledger.learning.losses.segmentation.parts import (
    AdaptiveLabels,
    BalancedMagnitudes,
    BalancingWeights,
    Labels,
    MedianLabels,
    ReleasedLabels,
    ReleasedWeights,
)
from fleetledger.learning.losses.segmentation.terms import (
    ClassConfidence,
    EncoderDistance,
    LocalPod,
    OutputEntropy,
    PixelCrossEntropy,
    PixelDistillation,
    PooledCubes,
    RelationConsistency,
    ReleasedCrossEntropy,
    SoftLabels,
    UnbiasedCrossEntropy,
    UnbiasedDistillation,
)

Terms = tuple[WeightedTerm, ...]

POD = WeightedTerm(1.0, LocalPod())
"""lambda2 L_POD of FBL (10)."""

CUBES = WeightedTerm(1.0, PooledCubes())
"""L_skd + L_ckd of RCIL."""


def fbl(
    labels: Labels = AdaptiveLabels(),  # noqa: B008 -- frozen
    *,
    balanced: bool = True,
    bounds: tuple[float, float] | None = None,
    relations: float = 0.5,
    pod: WeightedTerm = POD,
) -> Terms:
    """Return FBL's (10) in paper mode: L_FS, (5) and (6), lambda1 L_FR, (9), and lambda2 L_POD.

    w/oAPL by `ProbableLabels`, w/oFSC by `balanced=False`, w/oFRC by `relations=0`. `bounds` are of
    the weights (5), as LGA's program has them for samples.
    """
    magnitudes = BalancedMagnitudes(labels)
    weights = BalancingWeights(magnitudes, bounds=bounds) if balanced else None
    compensation = WeightedTerm(1.0, PixelCrossEntropy(labels, weights))
    if not relations:
        return compensation, pod
    return compensation, WeightedTerm(relations, RelationConsistency(magnitudes)), pod


def released_fbl(
    pod: WeightedTerm = POD,
    current: int | None = None,
    labels: Labels = ReleasedLabels(),  # noqa: B008 -- frozen
    *,
    balanced: bool = True,
    relations: bool = True,
) -> Terms:
    """Return FBL in code mode, in the task of number `current`.

    w/oAPL by `ProbableLabels`; w/oFSC by `balanced=False`, which leaves the weights of pixels out;
    w/oFRC by `relations=False`, which leaves out the three terms that stand for L_FR here.
    """
    weights = ReleasedWeights(labels, current=current)
    compensation = (
        ReleasedCrossEntropy(weights) if balanced else PixelCrossEntropy(labels, over="all")
    )
    if not relations:
        return WeightedTerm(1.0, compensation), pod
    return (
        WeightedTerm(1.0, compensation),
        WeightedTerm(0.3, SoftLabels(weights.labels)),
        WeightedTerm(0.1, OutputEntropy()),
        WeightedTerm(0.5, ClassConfidence(weights)),
        pod,
    )


def released_first() -> Terms:
    """Return what FBL's program learns its first task with: (1), a mean over all pixels."""
    return (WeightedTerm(1.0, PixelCrossEntropy(over="all")),)


def finetuning() -> Terms:
    """Return cross-entropy over all channels: every method's first task, FBL (1)."""
    return (WeightedTerm(1.0, PixelCrossEntropy()),)


def lwf(factor: float = 100.0) -> Terms:
    """Return Learning without Forgetting at every pixel."""
    return (*finetuning(), WeightedTerm(factor, PixelDistillation()))


def ilt(factor: float = 100.0, features: float = 100.0) -> Terms:
    """Return ILT: distillation of what the network says and of its encoder's features."""
    return (*lwf(factor), WeightedTerm(features, EncoderDistance()))


def mib(factor: float = 10.0) -> Terms:
    """Return MiB; its program's factor is 10 on VOC, 100 on ADE20k."""
    return (
        WeightedTerm(1.0, UnbiasedCrossEntropy()),
        WeightedTerm(factor, UnbiasedDistillation()),
    )


def plop(pod: WeightedTerm = POD) -> Terms:
    """Return PLOP: pseudo labels by median entropy, and local pooled outputs."""
    return WeightedTerm(1.0, PixelCrossEntropy(MedianLabels())), pod


def rcil(cubes: WeightedTerm = CUBES) -> Terms:
    """Return RCIL's simple form: PLOP's pseudo labels, and pooled cubes; one branch, not two."""
    return WeightedTerm(1.0, PixelCrossEntropy(MedianLabels())), cubes
