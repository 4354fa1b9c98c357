"""Gates on what a model answers without anybody knowing what is right: entropy, agreement."""

from __future__ import annotations

from fractions import Fraction

from coordinator.topics.rollouts.entries import GateFinding
from coordinator.topics.rollouts.evidence import Evidence, Sums
from coordinator.topics.rollouts.plan import GatePlan
from coordinator.topics.rollouts.resting import of_one, rests_on
from coordinator.topics.rollouts.scope import Scope, exact
from schemas.rollouts import NATS


def entropy(limits: GatePlan, evidence: Evidence, _: Scope) -> GateFinding | None:
    """Return whether the mean entropy shifted, up or down, over the same images.

    None where the gate is off.
    """
    if limits.entropy_nats is None:
        return None
    most, least = exact(limits.entropy_nats), limits.entropy_images

    def shifted(sums: Sums) -> bool:
        return sums.entropy_images >= least and abs(_shift(sums)) > most

    sums = evidence.sums
    images, shift = sums.entropy_images, _shift(sums)
    fails, short = shifted(sums), images < least
    alone = rests_on(evidence, shifted) if fails else None
    return GateFinding(
        gate="entropy",
        outcome="fail" if fails else "inconclusive" if short else "pass",
        value=float(abs(shift)) if images else None,
        limit=limits.entropy_nats,
        counts=(sums.entropy_active, sums.entropy_candidate, images),
        alone=alone,
        too_little=short,
        text=(
            f"{images} of {least} images are there to compare entropies."
            if short
            else f"The mean entropy shifted by {float(shift):+.3f} nats over {images} images; "
            f"{limits.entropy_nats:.4g} may be."
        )
        + of_one(alone),
    )


def agreement(limits: GatePlan, evidence: Evidence, _: Scope) -> GateFinding | None:
    """Return whether both models mostly give unlabelled images the same class.

    It never fails, for a better model disagrees, too; below the limit a person should look. None
    where the gate is off, or no device has such images.
    """
    agreed, images = evidence.sums.agreed, evidence.sums.unlabelled
    if limits.agreement is None or not images:
        return None
    share = Fraction(agreed, images)
    short = images < limits.min_images
    low = share < exact(limits.agreement)
    text = f"Both models gave {agreed} of {images} unlabelled images the same class, "
    text += f"{float(share):.1%}; a person should look below {limits.agreement:.4g}."
    return GateFinding(
        gate="agreement",
        outcome="inconclusive" if short or low else "pass",
        value=float(share),
        limit=limits.agreement,
        counts=(agreed, images),
        too_little=short,
        text=text + (f" They are fewer than {limits.min_images}." if short else ""),
    )


def _shift(sums: Sums) -> Fraction:
    """Return how much higher the candidate's mean entropy is, in nats."""
    if not sums.entropy_images:
        return Fraction(0)
    return Fraction(sums.entropy_candidate - sums.entropy_active, sums.entropy_images * NATS)
