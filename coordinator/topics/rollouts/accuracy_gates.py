"""Gates on held-out images: what was known is kept, no class is lost, new classes are learned.

A plan may ask for more: that the candidate is shown to be better.

Both gates on what was known fail by the evidence of images *and* of devices, each one vote. Images
of one device are dependent, and where devices differ in what a model is to them, evidence of images
alone stops too many rollouts of a model that is equal on average. Where there are too few devices
to carry a vote at all, evidence of images alone is for a person.
"""

from __future__ import annotations

import math
from fractions import Fraction

from coordinator.core.formatting import count_of
from coordinator.topics.rollouts.entries import GateFinding, GateName, Outcome
from coordinator.topics.rollouts.evalues import log_evidence, reaches
from coordinator.topics.rollouts.evidence import Evidence, PairCounts, Sums
from coordinator.topics.rollouts.plan import GatePlan
from coordinator.topics.rollouts.resting import of_one, rests_on
from coordinator.topics.rollouts.scope import Scope, exact
from schemas.rollouts import Pairs
from schemas.values import ClassName, DeviceId

_NEAR = 0.01
"""What is further below a threshold than this needs no exact look."""


def retention(limits: GatePlan, evidence: Evidence, scope: Scope) -> GateFinding | None:
    """Return whether the candidate is shown to be worse on what the active model knows.

    None where the gate is off, or nothing was known.
    """
    if limits.retention is None or not (scope.classes or evidence.sums.by_class):
        return None
    judged = _Judged("retention", limits, exact(limits.retention), evidence.sums.known)
    return judged.finding(evidence, scope)


def no_class_lost(limits: GatePlan, evidence: Evidence, scope: Scope) -> GateFinding | None:
    """Return whether it is shown to be worse on any one class, each against a higher threshold.

    With the threshold times the number of classes, all of them together raise a false alarm as
    seldom as one. The finding is about the class with most evidence, of those that no person has
    forgiven. None where the gate is off.
    """
    by_class = evidence.sums.by_class
    if limits.no_class_lost is None or not (scope.classes or by_class):
        return None
    threshold = exact(limits.no_class_lost) * max(scope.classes, len(by_class))
    judged = [
        _Judged("no_class_lost", limits, threshold, counts, name)
        for name, counts in sorted(by_class.items())
        if ("no_class_lost", name) not in scope.forgiven
    ]
    if not judged:
        judged = [_Judged("no_class_lost", limits, threshold, PairCounts())]
    worst = max(judged, key=lambda one: one.rank(scope))
    return worst.finding(evidence, scope)


def better(limits: GatePlan, evidence: Evidence, scope: Scope) -> GateFinding | None:
    """Return whether the candidate is shown to be better on what the active model knows.

    Only the devices that had no part in it count, where some had. It passes by evidence of images
    while more devices are better off than worse, and never fails: what is not shown may yet be so.
    None where the gate is off.
    """
    if limits.better is None:
        return None
    threshold, counts = exact(limits.better), evidence.judged
    shown = reaches(counts.better, counts.worse, threshold)
    shown = shown and counts.devices_better > counts.devices_worse
    evident = log_evidence(counts.better, counts.worse) if counts.better > counts.worse else 0.0
    who = count_of(counts.devices) + (" that had no part in it" if scope.judges else "")
    return GateFinding(
        gate="better",
        outcome="pass" if shown else "inconclusive",
        value=round(evident, 3),
        limit=round(math.log(threshold), 3),
        counts=(
            counts.better,
            counts.worse,
            counts.images,
            counts.devices_better,
            counts.devices_worse,
            counts.devices,
        ),
        text=(
            f"Of {counts.images:,} images of classes known before on {who}, {counts.better} only "
            f"the candidate had right and {counts.worse} only the active model: log e "
            f"{evident:.1f}, {math.log(threshold):.1f} is asked for."
            + ("" if shown else " So it is not shown to be better.")
        ),
    )


def gain(limits: GatePlan, evidence: Evidence, scope: Scope) -> GateFinding | None:
    """Return whether enough images of new classes are right; None where nothing is asked.

    It passes with a share of `min_new`, fails where a lower one is shown by an e-value as high as
    `retention` asks (100 where that is off), and is inconclusive in between.
    """
    if not limits.min_new:
        return None
    sums, least = evidence.sums, exact(limits.min_new)
    counts = (sums.new_right, sums.new_images)
    text = f"Of {sums.new_images} images of new classes {sums.new_right} were right"
    if short := too_little(limits, sums.new_images, sums.new_devices, scope):
        return GateFinding(
            gate="gain",
            outcome="inconclusive",
            limit=limits.min_new,
            counts=counts,
            too_little=True,
            text=f"{text}, {short}.",
        )
    share = Fraction(sums.new_right, sums.new_images) if sums.new_images else Fraction(0)
    proof = exact(limits.retention or 100.0)

    def is_low(sums: Sums) -> bool:
        return reaches(sums.new_images - sums.new_right, sums.new_right, proof, 1 - least)

    low = is_low(sums)
    alone = rests_on(evidence, is_low) if low else None
    return GateFinding(
        gate="gain",
        outcome="pass" if share >= least else "fail" if low else "inconclusive",
        value=float(share),
        limit=limits.min_new,
        counts=counts,
        alone=alone,
        text=f"{text}, {float(share):.1%}; asked for are {limits.min_new:.4g}."
        + of_one(alone)
        + (" That it is less may yet be chance." if share < least and not low else ""),
    )


def too_little(limits: GatePlan, images: int, devices: int, scope: Scope) -> str:
    """Return why accuracy says nothing yet, or nothing where it does."""
    asked = min(limits.min_devices, scope.members)
    if not limits.min_images:
        return ""
    if images < limits.min_images:
        return f"fewer than {limits.min_images}"
    return f"of only {count_of(devices)}, asked for are {asked}" if devices < asked else ""


class _Judged:
    """Counts of one or all classes that the active model knows, against a threshold."""

    def __init__(
        self,
        gate: GateName,
        limits: GatePlan,
        threshold: Fraction,
        counts: PairCounts,
        of_class: ClassName | None = None,
    ) -> None:
        self.gate = gate
        self.limits = limits
        self.threshold = threshold
        self.log_threshold = math.log(threshold)
        self.votes = exact(limits.devices)
        self.counts = counts
        self.of_class = of_class

    def standing(self) -> int:
        """Return how bad it is: 2 fails, 1 a person should look, 0 neither."""
        counts = self.counts
        if not reaches(counts.worse, counts.better, self.threshold):
            return 0
        if reaches(counts.devices_worse, counts.devices_better, self.votes):
            return 2
        return 0 if reaches(counts.devices, 0, self.votes) else 1

    def rank(self, scope: Scope) -> tuple[int, float]:
        """Return that by which the worst class is chosen: how bad, by what evidence."""
        counts = self.counts
        if counts.worse <= counts.better:
            return 0, -math.inf
        log = round(log_evidence(counts.worse, counts.better), 6)
        standing = self.standing() if log > self.log_threshold - _NEAR else 0
        if standing == 1 and (self.gate, self.of_class) in scope.overlooked:
            standing = 0
        return standing, log

    def finding(self, evidence: Evidence, scope: Scope) -> GateFinding:
        """Return it with figures and in words."""
        counts, standing = self.counts, self.standing()
        known = evidence.sums.known
        short = too_little(self.limits, known.images, known.devices, scope)
        alone = self._alone(evidence) if standing == 2 else None
        outcome: Outcome = "fail" if standing == 2 else "pass"
        if outcome == "pass" and (standing or short):
            outcome = "inconclusive"
        return GateFinding(
            gate=self.gate,
            outcome=outcome,
            value=round(log_evidence(counts.worse, counts.better), 3),
            limit=round(self.log_threshold, 3),
            counts=(
                counts.worse,
                counts.better,
                counts.images,
                counts.devices_worse,
                counts.devices_better,
                counts.devices,
            ),
            of_class=self.of_class,
            alone=alone,
            too_little=bool(short) and not standing,
            text=self._text(standing, short, alone),
        )

    def _text(self, standing: int, short: str, alone: DeviceId | None) -> str:
        counts = self.counts
        of = f"images of {self.of_class}" if self.of_class else "images of classes known before"
        text = (
            f"Of {counts.images:,} {of} on {count_of(counts.devices)}, "
            f"{counts.worse} only the active model had right "
            f"and {counts.better} only the candidate: "
            f"log e {log_evidence(counts.worse, counts.better):.1f}, the limit is "
            f"{self.log_threshold:.1f}."
        )
        if standing == 2:
            text += (
                f" {count_of(counts.devices_worse)} "
                f"{'is' if counts.devices_worse == 1 else 'are'} worse off "
                f"and {counts.devices_better} better."
            )
        elif standing:
            text += " Images say that it is worse, but too few devices to say so by themselves."
        elif short:
            text += f" That is too little to pass: {short}."
        return text + of_one(alone)

    def _alone(self, evidence: Evidence) -> DeviceId | None:
        """Return the device without which it would not fail, the strongest if several are so."""
        alone = [
            (_log_without(self.counts, pairs), device)
            for device, pairs in evidence.pairs_by_device(self.of_class)
            if pairs.only_active > pairs.only_candidate and not self._fails_without(pairs)
        ]
        return min(alone)[1] if alone else None

    def _fails_without(self, pairs: Pairs) -> bool:
        counts = self.counts
        worse, better = counts.worse - pairs.only_active, counts.better - pairs.only_candidate
        return reaches(worse, better, self.threshold) and reaches(
            counts.devices_worse - 1, counts.devices_better, self.votes
        )


def _log_without(counts: PairCounts, pairs: Pairs) -> float:
    return round(
        log_evidence(counts.worse - pairs.only_active, counts.better - pairs.only_candidate), 6
    )
