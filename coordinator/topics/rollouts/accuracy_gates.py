"""Gates on held-out images: what was known is kept, no class is lost, new classes are learned.

A plan may ask for more: that the candidate is shown to be better.

All of them go by devices: each counts with its net loss, as a share of its images and up to a cap,
so images of one device may show the same thing, and no device decides by itself. Where devices are
too few to ever decide, images speak for themselves only if the plan says how many may show the same
thing, and then a person decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from fleetledger.coordinator.core.phrases import count_of, some
from fleetledger.coordinator.topics.rollouts import evalues
from fleetledger.coordinator.topics.rollouts.evidence import Evidence, PairCounts
from fleetledger.coordinator.topics.rollouts.gate import GateResult
from fleetledger.coordinator.topics.rollouts.plan import GatePlan
from fleetledger.coordinator.topics.rollouts.ranking import of_one
from fleetledger.coordinator.topics.rollouts.scope import Outcome, Scope, exact
from fleetledger.schemas.values import ClassName, DeviceId

_NEAR = 1.62
"""Nats below a threshold from which on an exact look is worth its time: one device divides the
evidence by at most 5."""
_MOST_TEXT = 1000


def retention(limits: GatePlan, evidence: Evidence, scope: Scope) -> GateResult | None:
    """Return whether the candidate is shown to be worse on what the active model knows.

    A person is asked where most devices are worse off, though not by enough to fail, and where it
    would fail without some one device. None where nothing was known.
    """
    if not (scope.classes or evidence.by_class):
        return None
    assert limits.retention is not None
    judged = _Judged("retention", limits, exact(limits.retention), evidence.known)
    return judged.finding(evidence, scope)


def no_class_lost(limits: GatePlan, evidence: Evidence, scope: Scope) -> GateResult | None:
    """Return whether it is shown to be worse on any one class, each against a higher threshold.

    With the threshold times the number of classes, all of them together raise a false alarm as
    seldom as one (Boole's inequality). The finding is about the class with most evidence, of those
    that no person has forgiven. None where nothing was known.
    """
    by_class = evidence.by_class
    if not (scope.classes or by_class):
        return None
    assert limits.no_class_lost is not None
    threshold = exact(limits.no_class_lost) * max(scope.classes, len(by_class))
    judged = [
        _Judged("no_class_lost", limits, threshold, counts, name)
        for name, counts in sorted(by_class.items())
        if ("no_class_lost", name) not in scope.forgiven
    ]
    if not judged:
        judged = [_Judged("no_class_lost", limits, threshold, PairCounts())]
    worst = max(judged, key=lambda one: one.rank(scope))
    finding = worst.finding(evidence, scope)
    few = [f"{one.of_class} ({one.counts.devices:,})" for one in judged if one.missing]
    if not few or finding.too_little:
        return finding
    text = f"{finding.text} Told by too few devices, {worst.needed} are needed: {some(few)}."
    return finding.model_copy(update={"text": text[:_MOST_TEXT]})


def better(limits: GatePlan, evidence: Evidence, scope: Scope) -> GateResult:
    """Return whether the candidate is shown to be better on what the active model knows.

    Only the devices that had no part in it count, where some had. It passes by the evidence of
    devices, or of images where the plan says how many may show the same thing, if that stands
    without any one device. No single device keeps it from passing where most of the others vote for
    it. It never fails: what is not shown may yet be so.
    """
    assert limits.better is not None
    threshold, counts = exact(limits.better), evidence.judged
    liars, gains = exact(limits.liars), evalues.mirrored(counts.losses)
    needed = limits.judges_needed
    shown = evalues.reaches(gains, threshold, liars, without=1)
    in_spite = not shown and evalues.reaches_in_spite_of_one(gains, threshold, liars)
    shown, by_images = shown or in_spite, False
    if not shown and limits.alike is not None and counts.devices < needed:
        by_images = shown = _images_show_gain(evidence, threshold, limits.alike)
    evident = evalues.log_evidence(gains, liars)
    who = count_of(counts.devices) + (" that had no part in it" if scope.judges else "")
    text = (
        f"Of {count_of(counts.images, 'image')} of classes known before on {who}, "
        f"{counts.better:,} only "
        f"the candidate had right and {counts.worse:,} only the active model: log e of devices "
        f"is {evident:.1f}, {evalues.log_of(threshold):.1f} is asked for without any one of them."
    )
    if by_images:
        text += f" Images show it, if at most {limits.alike} of them show the same thing."
    elif in_spite:
        log_votes = evalues.log_evidence(evalues.signs(gains), liars)
        text += f" It is without the one that is worst off; log e of votes is {log_votes:.1f}."
    elif not shown and counts.devices < needed:
        text += f" {_needs(counts.devices, needed)} So it is not shown to be better."
    elif not shown:
        text += " So it is not shown to be better."
    return GateResult(
        outcome="pass" if shown else "inconclusive",
        value=round(evident, 3),
        limit=round(evalues.log_of(threshold), 3),
        counts=(
            counts.better,
            counts.worse,
            counts.images,
            counts.devices_better,
            counts.devices_worse,
            counts.devices,
        ),
        text=text,
    )


def gain(limits: GatePlan, evidence: Evidence, scope: Scope) -> GateResult:
    """Return whether enough images of new classes are right.

    It passes where devices have a share of `min_new` right on average, also without the best one
    of them. It fails where less is shown by evidence of devices, and is inconclusive in between.
    """
    new, least = evidence.new, exact(limits.min_new)
    devices, counts = len(new.wrong), (new.right, new.images)
    text = (
        f"Of {count_of(new.images, 'image')} of new classes on {count_of(devices)} {new.right:,} "
        f"were right"
    )
    if short := too_little(limits, new.images, devices, scope):
        return GateResult(
            outcome="inconclusive",
            limit=limits.min_new,
            counts=counts,
            too_little=True,
            text=f"{text}: {short}",
        )
    share = 1 - new.wrong.mean if devices else Fraction(0)
    proof, liars = exact(limits.gain), exact(limits.liars)
    enough = devices > 0 and 1 - new.wrong.worst_mean >= least
    low = not enough and evalues.reaches(new.shortfalls, proof, liars)
    alone = None
    if low and not evalues.reaches(new.shortfalls, proof, liars, without=1):
        alone = new.wrong.items[-1][1]
    return GateResult(
        outcome="pass" if enough else "fail" if low else "inconclusive",
        value=round(float(share), 6),
        limit=limits.min_new,
        counts=counts,
        alone=alone,
        text=f"{text}, {float(share):.1%} on average over devices; asked for are "
        f"{limits.min_new:.4g}." + of_one(alone) + _unsure(share >= least, enough or low),
    )


def too_little(limits: GatePlan, images: int, devices: int, scope: Scope, needed: int = 0) -> str:
    """Return why accuracy says nothing yet, as a sentence; nothing where it does.

    `needed` devices can decide by themselves.
    """
    if not limits.min_images:
        return ""
    things = images // (limits.alike or 1)
    if things < limits.min_images:
        are = "is" if limits.min_images == 1 else "are"
        of = "" if limits.alike in (None, 1) else f": {count_of(images, 'image')}, of which "
        of += f"{limits.alike} count as one" if of else ""
        return f"{things:,} of {count_of(limits.min_images, 'image')} {are} there{of}."
    asked = max(needed, min(limits.min_devices, scope.members))
    return _needs(devices, asked) if devices < asked else ""


@dataclass(frozen=True)
class _Judged:
    """Counts of one or all classes that the active model knows, against a threshold."""

    gate: str
    limits: GatePlan
    threshold: Fraction
    counts: PairCounts
    of_class: ClassName | None = None

    @property
    def liars(self) -> Fraction:
        limits = self.limits
        return limits.liars_of_class if self.gate == "no_class_lost" else exact(limits.liars)

    @property
    def needed(self) -> int:
        """Devices that can decide by themselves."""
        return evalues.fewest(self.threshold, self.liars)

    @property
    def missing(self) -> int:
        """How many of them are not there; none where nobody has any image."""
        return max(0, self.needed - self.counts.devices) if self.counts.devices else 0

    def standing(self) -> int:
        """Return how bad it is: 2 fails, 1 a person should look, 0 neither."""
        if evalues.reaches(self.counts.losses, self.threshold, self.liars):
            return 2
        asks = self._images_say_so() or self._most_are_worse() or self._one_hides_it()
        return 1 if asks else 0

    def rank(self, scope: Scope) -> tuple[int, float]:
        """Return that by which the worst class is chosen: how bad, by what evidence."""
        log = round(evalues.log_evidence(self.counts.losses, self.liars), 6)
        standing = 1 if self._images_say_so() else 0
        if log > evalues.log_of(self.threshold) - _NEAR:
            standing = self.standing()
        if standing == 1 and (self.gate, self.of_class) in scope.overlooked:
            standing = 0
        return standing, log

    def finding(self, evidence: Evidence, scope: Scope) -> GateResult:
        """Return it with figures and in words."""
        counts, standing, known = self.counts, self.standing(), evidence.known
        needed = self.needed if self.limits.alike is None else 0
        short = too_little(self.limits, known.images, known.devices, scope, needed)
        alone = self._alone(evidence, standing)
        outcome: Outcome = "fail" if standing == 2 else "pass"
        if outcome == "pass" and (standing or short):
            outcome = "inconclusive"
        return GateResult(
            outcome=outcome,
            value=round(evalues.log_evidence(counts.losses, self.liars), 3),
            limit=round(evalues.log_of(self.threshold), 3),
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
            text=self._text(standing, short) + of_one(alone),
        )

    def _text(self, standing: int, short: str) -> str:
        counts, limits = self.counts, self.limits
        of = f"images of {self.of_class}" if self.of_class else "images of classes known before"
        text = (
            f"Of {counts.images:,} {of} on {count_of(counts.devices)}, {counts.worse:,} only the "
            f"active model had right and {counts.better:,} only the candidate: log e of devices is "
            f"{evalues.log_evidence(counts.losses, self.liars):.1f}, the limit is "
            f"{evalues.log_of(self.threshold):.1f}."
        )
        off = counts.devices_worse
        sides = f"{count_of(off)} {'is' if off == 1 else 'are'} worse off"
        sides += f" and {counts.devices_better:,} better off"
        if standing == 2:
            return f"{text} {sides[:1].upper()}{sides[1:]}."
        if self._images_say_so():
            log = evalues.log_evidence_of_images(counts.worse, counts.better, limits.alike or 1)
            return (
                f"{text} {_needs(counts.devices, self.needed)} Images say that it is worse, log e "
                f"{log:.1f}, if at most {limits.alike} of them show the same thing."
            )
        if self._one_hides_it():
            return f"{text} It does not fail, by one device alone: a person should look."
        if standing:
            log_votes = evalues.log_evidence(evalues.signs(counts.losses), self.liars)
            return f"{text} But {sides}, log e of votes {log_votes:.1f}: a person should look."
        return f"{text} That is too little to pass: {short}" if short else text

    def _images_say_so(self) -> bool:
        """Return whether images alone speak against it, where devices are too few to decide."""
        counts, alike = self.counts, self.limits.alike
        if alike is None or counts.devices >= self.needed:
            return False
        return evalues.images_reach(counts.worse, counts.better, alike, self.threshold)

    def _most_are_worse(self) -> bool:
        """Return whether devices are shown to be worse off more often than better off."""
        if self.gate != "retention":
            return False
        return evalues.reaches(evalues.signs(self.counts.losses), self.threshold, self.liars)

    def _one_hides_it(self) -> bool:
        """Return whether it would fail without the device that speaks most for the candidate."""
        return evalues.reaches_but_for_one(self.counts.losses, self.threshold, self.liars)

    def _alone(self, evidence: Evidence, standing: int) -> DeviceId | None:
        """Return the device on which the outcome rests, the strongest if several are so."""
        if standing == 2:
            rests = not evalues.reaches(self.counts.losses, self.threshold, self.liars, without=1)
        else:
            rests = self._one_hides_it()
        if not rests:
            return None
        cap, side = exact(self.limits.cap), -1 if standing == 2 else 1
        losses = (
            (
                side * evalues.net_loss(pairs.only_active, pairs.only_candidate, pairs.images, cap),
                device,
            )
            for device, pairs in evidence.pairs_by_device(self.of_class)
            if pairs.images
        )
        return min(losses)[1]


def _images_show_gain(evidence: Evidence, threshold: Fraction, alike: int) -> bool:
    """Return whether images show that it is better, whichever one of the judges is left out."""
    counts, judges = evidence.judged, evidence.judges
    found = [
        pairs
        for device, pairs in evidence.pairs_by_device(None)
        if judges is None or judges.has(device)
    ]
    return len(found) > 1 and all(
        evalues.images_reach(
            counts.better - pairs.only_candidate, counts.worse - pairs.only_active, alike, threshold
        )
        for pairs in found
    )


def _needs(devices: int, needed: int) -> str:
    """Return the sentence that says how many devices there are, and how many it takes."""
    has, are = "has" if devices == 1 else "have", "is" if needed == 1 else "are"
    return f"{count_of(devices)} {has} images, and {needed:,} {are} needed to tell by themselves."


def _unsure(share_is_enough: bool, decided: bool) -> str:
    if decided:
        return ""
    if share_is_enough:
        return " Without the best device it would be less."
    return " That it is less may yet be chance."
