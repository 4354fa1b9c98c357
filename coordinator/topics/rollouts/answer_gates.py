"""Gates on what a model answers without anybody knowing what is right: entropy, agreement."""

from __future__ import annotations

from fleetledger.coordinator.core.phrases import count_of
from fleetledger.coordinator.topics.rollouts.evidence import Evidence
from fleetledger.coordinator.topics.rollouts.gate import GateResult
from fleetledger.coordinator.topics.rollouts.plan import GatePlan
from fleetledger.coordinator.topics.rollouts.scope import Outcome, Scope, exact
from fleetledger.schemas.count_words import agree

_HOLDING: tuple[Outcome, ...] = ("pass", "inconclusive", "fail")


def entropy(limits: GatePlan, evidence: Evidence, scope: Scope) -> GateResult:
    """Return whether the mean entropy shifted on more than half of the group, up or down."""
    assert limits.entropy_nats is not None
    most, answers = exact(limits.entropy_nats), evidence.answers
    images, short = answers.images, answers.images < limits.entropy_images
    if short:
        return GateResult(
            outcome="inconclusive",
            limit=limits.entropy_nats,
            counts=(images, len(answers.surer)),
            too_little=True,
            text=f"{images:,} of {count_of(limits.entropy_images, 'image')} "
            f"{agree(images, 'is', 'are')} there to compare "
            f"entropies.",
        )
    side = max(
        (answers.less_sure, answers.surer),
        key=lambda one: (_HOLDING.index(one.outcome(most, scope.members)), one.median),
    )
    outcome, alone, why = side.says(most, scope.members)
    shift = float(side.median if side is answers.less_sure else -side.median)
    return GateResult(
        outcome=outcome,
        value=round(abs(shift), 6),
        limit=limits.entropy_nats,
        counts=(images, len(side)),
        alone=alone,
        text=f"The mean entropy shifted by {shift:+.3f} nats on {count_of(len(side))} (median), "
        f"over {count_of(images, 'image')}; {limits.entropy_nats:.4g} may be." + why,
    )


def agreement(limits: GatePlan, evidence: Evidence, _: Scope) -> GateResult | None:
    """Return whether both models mostly give unlabelled images the same class.

    It never fails, for a better model disagrees, too; below the limit a person should look. Each
    device counts once, and a pass stands without any one of them. None where no device has such
    images.
    """
    answers = evidence.answers
    agreed, images, differ = answers.agreed, answers.unlabelled, answers.disagreeing
    if not images:
        return None
    assert limits.agreement is not None
    short = images < limits.min_images
    low = 1 - differ.worst_mean < exact(limits.agreement)
    share = round(float(1 - differ.mean), 6)
    text = (
        f"Both models gave {agreed:,} of {count_of(images, 'unlabelled image')} the same class, "
        f"{share:.1%} on average over {count_of(len(differ))}; a person should look "
        f"below {limits.agreement:.4g}."
    )
    return GateResult(
        outcome="inconclusive" if short or low else "pass",
        value=share,
        limit=limits.agreement,
        counts=(agreed, images),
        too_little=short,
        text=text + (f" They are fewer than {limits.min_images:,}." if short else ""),
    )
