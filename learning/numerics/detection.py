"""Noticing new classes without labels: how uncertain new images are, against earlier ones.

Each image has a relative entropy H / ln C: 0 certain, 1 uniform. An image must be measured before a
head has learned it, since afterwards it looks certain.

`sequential` is the mode to use: evidence is gathered over shots, and false alarms are bounded
(`learning.numerics.sequential_detection`). What was quiet under one model says nothing of another,
so a new model begins anew, and keeps the shots of its backbone. Images that are never learned can
be its first quiet ones (`seeded`).

`baseline` judges batches of `min_images`. The mean of one is compared with the device's earlier
batches: above their mean by more than `deviations` standard deviations, it is a transition. The
standard deviation is the largest of three: that of the earlier means, that of a mean of so many
images with the spread seen within batches, and `smallest_deviation`. A head that has grown must not
fake a transition, and relative entropies of two heads are not comparable. `growth` says what
happens then:

- `restart`: the history begins anew. Images that are never learned can give its first batches.
- `restrict`: only the rows that were there at the last batch count, and the history goes on. Right
  for images of old classes; a class that was just learned is strange to the old rows.

`fixed-rise` is the released programs' rule, to compare with: entropy in nats over all rows, the
head grown first, and a fixed rise over the batch before (1.2, or 0.6 for segmentation), 0 at first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.conformal import first_number, shuffled
from fleetledger.learning.numerics.entropy import Floats, relative_entropy, softmax
from fleetledger.learning.numerics.sequential_detection import (
    ChangeEvidence,
    Doubt,
    gathered,
    with_reference,
)
from fleetledger.learning.numerics.shots import Projections, Shots, add_images, centred_by

ENTROPY = "relative entropy"
"""What a head is measured by that tells nothing else, in words."""
_RELEASED_EPSILON = 1e-5
"""Added to a probability before its logarithm, as the released programs do."""


@dataclass(frozen=True)
class DetectionRules:
    """What is a transition; benchmarks/papers/detection tells what the defaults do."""

    mode: Literal["sequential", "baseline", "fixed-rise"] = "sequential"
    quiet_images: int = 1000
    """For `sequential`: quiet images on average, at least, before one is called a transition."""
    growth: Literal["restart", "restrict"] = "restart"
    min_images: int = 50
    """Images of a batch; for `sequential` the least history before strange images are measured."""
    deviations: float = 2.0
    """How many standard deviations above the mean of earlier batches a batch must be."""
    smallest_deviation: float = 0.01
    min_history: int = 3
    """Earlier batches without which nothing is said."""
    max_history: int = 20
    """Earlier batches that are remembered."""
    rise_nats: float = 1.2
    """For `fixed-rise`: the rise over the batch before."""
    device: str = ""
    """For `sequential`: name of the device, whose ties are broken by its own chance."""


class BatchValues(NamedTuple):
    """Values of some images, in short."""

    images: int
    mean: float
    squares: float
    """Mean of the squared values."""

    @property
    def variance(self) -> float:
        """Variance of the values within the batch."""
        return max(0.0, self.squares - self.mean**2)

    def with_values(self, values: Sequence[float]) -> BatchValues:
        """Return the batch with more images in it."""
        images = self.images + len(values)
        total = math.fsum([self.mean * self.images, *values])
        squares = math.fsum([self.squares * self.images, *(value**2 for value in values)])
        return BatchValues(images, total / images, squares / images) if images else EMPTY


EMPTY = BatchValues(0, 0.0, 0.0)


class ScoringHead(NamedTuple):
    """The head that measures: the class name of each row, its inverse temperature, its model."""

    rows: tuple[str, ...]
    logit_scale: float
    model: str = ""
    """Digest of the model's manifest: `sequential` compares under one model only."""
    measure: str = ENTROPY
    """What `sequential` compares, in words: "novelty" where the model tells that."""
    backbone: str = ""
    """Digest of the frozen part by whose features images are alike; empty where each image is its
    own shot."""


class Measurement(NamedTuple):
    """One batch and what it was compared with; for `sequential`, what a change may have begun with.

    Without a trace of a change these are 0 images, of the level of all.
    """

    images: int
    uncertainty: float
    """Mean relative entropy; for `fixed-rise`, mean entropy in nats."""
    baseline: float | None
    """Mean of the earlier batches, or images; None while there are too few. For `fixed-rise`, the
    batch before."""
    deviation: float | None
    """The standard deviation that counted, for `baseline`."""
    raised: bool
    """Whether the batch was above what the rules allow; for `sequential` whether an alarm is not
    long ago."""
    transition: bool
    """Whether it was the first such batch since the level was normal, or since the head grew; for
    `sequential` whether the evidence was enough."""


@dataclass(frozen=True)
class Detector:
    """What a device remembers between batches."""

    head: ScoringHead | None = None
    """The head at the last batch."""
    history: tuple[BatchValues, ...] = ()
    """Earlier batches that were not raised, oldest first."""
    waiting: BatchValues = EMPTY
    """Images that do not make a batch yet."""
    raised: bool = False
    last: Measurement | None = None
    evidence: ChangeEvidence = field(default_factory=ChangeEvidence)
    """For `sequential`; the batches stay empty."""
    shots: Shots = field(default_factory=Shots)
    """For `sequential`: what the camera has shown last."""

    def ready(self, rules: DetectionRules) -> bool:
        """Whether there is enough history to say anything."""
        if rules.mode == "sequential":
            return self.evidence.images >= rules.min_images
        return rules.mode == "fixed-rise" or len(self.history) >= max(2, rules.min_history)

    def to_plain(self) -> dict[str, Any]:
        """Return plain values for JSON; the law: `Detector.from_plain(d.to_plain()) == d`."""
        return {
            "head": self.head,
            "history": self.history,
            "waiting": self.waiting,
            "raised": self.raised,
            "last": self.last,
            "evidence": self.evidence.to_plain(),
            "shots": self.shots.to_plain(),
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Detector:
        """Return what `to_plain` wrote; raise `KeyError`, `TypeError` or `ValueError` else."""
        head, last = plain["head"], plain["last"]
        return cls(
            head=None if head is None else ScoringHead(tuple(head[0]), float(head[1]), *head[2:]),
            history=tuple(BatchValues(*batch) for batch in plain["history"]),
            waiting=BatchValues(*plain["waiting"]),
            raised=plain["raised"],
            last=None if last is None else Measurement(*last),
            evidence=ChangeEvidence.from_plain(plain["evidence"]),
            shots=Shots.from_plain(plain["shots"]),
        )


def uncertainty(
    scores: npt.NDArray[Any], head: ScoringHead, known: ScoringHead | None, rules: DetectionRules
) -> Floats:
    """Return the value (n,) of each image from its scores (n, C).

    `known` is the head at the last batch. Under `restrict`, rows that it lacks do not count, unless
    fewer than two are left.
    """
    if rules.mode == "fixed-rise":
        return _released_entropy(softmax(scores, head.logit_scale))
    if rules.growth == "restrict" and known is not None:
        columns = [column for column, name in enumerate(head.rows) if name in set(known.rows)]
        scores = scores[:, columns] if len(columns) >= 2 else scores
    return relative_entropy(softmax(scores, head.logit_scale))


def observe(
    detector: Detector,
    values: Sequence[float],
    head: ScoringHead,
    rules: DetectionRules,
    projections: Projections | None = None,
) -> tuple[Detector, tuple[Measurement, ...]]:
    """Take in the values of some images; return the measurements of batches that became full.

    For `sequential` these are one for each alarm, or without any a single one of how things stand;
    images belong to shots by their `projections` (n, BITS), else each is its own.
    """
    detector = _brought_to(detector, head, rules)
    if rules.mode == "sequential":
        return _observe_sequentially(detector, values, rules, projections)
    measurements = []
    rest = list(values)
    while rest:
        room = max(1, rules.min_images - detector.waiting.images)
        waiting = detector.waiting.with_values(rest[:room])
        rest = rest[room:]
        if waiting.images < rules.min_images:
            detector = replace(detector, waiting=waiting)
            break
        detector, measurement = _judge(detector, waiting, head, rules)
        measurements.append(measurement)
    return detector, tuple(measurements)


def seeded(
    detector: Detector,
    values: Sequence[float],
    head: ScoringHead,
    rules: DetectionRules,
    projections: Projections | None = None,
) -> Detector:
    """Return the detector with first batches from images of known classes that are never learned.

    Nothing changes if the history is long enough, or the images are too few for `min_history`
    batches. Each batch takes every n-th image, since images come sorted by class. For `sequential`
    they are the reference, unless there is one, and their `projections` (n, BITS) give a centre.
    """
    detector = _brought_to(detector, head, rules)
    if rules.mode == "sequential":
        if projections is not None:
            detector = replace(detector, shots=centred_by(detector.shots, projections))
        if detector.evidence.images or not values:
            return detector
        return replace(detector, evidence=with_reference(detector.evidence, values))
    count = len(values) // rules.min_images
    if rules.mode == "fixed-rise" or detector.ready(rules) or count < rules.min_history:
        return detector
    batches = tuple(EMPTY.with_values(values[start::count]) for start in range(count))
    return replace(detector, head=head, history=(*batches, *detector.history)[-rules.max_history :])


def _brought_to(detector: Detector, head: ScoringHead, rules: DetectionRules) -> Detector:
    """Drop what a head that measures otherwise has left; the rows' order does not matter."""
    known = detector.head
    if rules.mode == "sequential":
        return detector if known == head else _under(head, detector, rules)
    if known is None or rules.mode == "fixed-rise":
        return replace(detector, head=known or head)
    same_rows = set(known.rows) == set(head.rows)
    if known.logit_scale == head.logit_scale and (same_rows or rules.growth == "restrict"):
        return detector
    return Detector(head=head, last=detector.last)


def _under(head: ScoringHead, detector: Detector, rules: DetectionRules) -> Detector:
    """Return the detector that begins anew under a model, with the shots of its backbone."""
    own = first_number(f"{rules.device}/{head.model}")
    same = detector.shots.backbone == head.backbone
    return Detector(
        head=head,
        last=detector.last,
        evidence=ChangeEvidence(compared=own),
        shots=detector.shots if same else Shots(head.backbone),
    )


def _observe_sequentially(
    detector: Detector,
    values: Sequence[float],
    rules: DetectionRules,
    projections: Projections | None,
) -> tuple[Detector, tuple[Measurement, ...]]:
    """Take in images that came together: they are shuffled, since they lie sorted by class."""
    if not values:
        return detector, ()
    shots, begins = detector.shots, None
    order = shuffled(len(values), detector.evidence.compared)
    if projections is not None:
        shots, begins = add_images(shots, projections[order])
    evidence, alarms = gathered(
        detector.evidence, [values[index] for index in order], rules.quiet_images, begins
    )
    raised = evidence.raised_for > 0
    stands = _measurement(evidence.run, evidence.before, raised=raised, transition=False)
    found = tuple(
        _measurement(alarm.run, alarm.before, raised=True, transition=True) for alarm in alarms
    )
    last = found[-1] if found else stands
    after = replace(detector, raised=raised, last=last, evidence=evidence, shots=shots)
    return after, found or (stands,)


def _measurement(run: Doubt, before: Doubt, *, raised: bool, transition: bool) -> Measurement:
    level = run.mean if run.mean is not None else before.mean or 0.0
    return Measurement(run.images, level, before.mean, None, raised, transition)


def _judge(
    detector: Detector, batch: BatchValues, head: ScoringHead, rules: DetectionRules
) -> tuple[Detector, Measurement]:
    baseline, deviation, limit = _compared_with(detector, batch.images, rules)
    raised = limit is not None and batch.mean > limit
    grown = detector.head is not None and bool(set(head.rows) - set(detector.head.rows))
    transition = raised and (grown or not detector.raised or rules.mode == "fixed-rise")
    measurement = Measurement(batch.images, batch.mean, baseline, deviation, raised, transition)
    quiet = not raised or rules.mode == "fixed-rise"
    history = (*detector.history, batch) if quiet else detector.history
    return Detector(head, history[-rules.max_history :], EMPTY, raised, measurement), measurement


def _compared_with(
    detector: Detector, images: int, rules: DetectionRules
) -> tuple[float | None, float | None, float | None]:
    """Return baseline, deviation, and the limit above which a batch is raised."""
    history = detector.history
    if rules.mode == "fixed-rise":
        before = history[-1].mean if history else 0.0
        return before, None, before + rules.rise_nats
    if not detector.ready(rules):
        return None, None, None
    means = [batch.mean for batch in history]
    baseline = math.fsum(means) / len(means)
    between = math.fsum((mean - baseline) ** 2 for mean in means) / (len(means) - 1)
    within = math.fsum(batch.variance for batch in history) / len(history) / images
    deviation = max(math.sqrt(between), math.sqrt(within), rules.smallest_deviation)
    return baseline, deviation, baseline + rules.deviations * deviation


def _released_entropy(probabilities: Floats) -> Floats:
    """Return -sum p ln(p + 1e-5) (n,), in nats."""
    return np.asarray(-(probabilities * np.log(probabilities + _RELEASED_EPSILON)).sum(axis=-1))
