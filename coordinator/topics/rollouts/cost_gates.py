"""Gates on what the model takes on devices: time, memory, heat; and on devices where it failed."""

from __future__ import annotations

from fractions import Fraction

from coordinator.core.formatting import count_of, some
from coordinator.topics.rollouts.entries import GateFinding
from coordinator.topics.rollouts.evidence import Evidence
from coordinator.topics.rollouts.plan import GatePlan
from coordinator.topics.rollouts.ranking import of_one
from coordinator.topics.rollouts.scope import Scope, exact

MIN_LATENCIES = 100
"""Samples of either model, of fewer of which a p95 says nothing."""


def latency(limits: GatePlan, evidence: Evidence, _: Scope) -> GateFinding | None:
    """Return whether the candidate's p95 is too many times the active one's.

    The ratio is that of each device, 1 where the difference is no matter, and more than half of
    the devices must exceed the limit. None where the gate is off.
    """
    if limits.latency is None:
        return None
    counts = tuple(evidence.costs.timed)
    if min(counts) < MIN_LATENCIES:
        return GateFinding(
            gate="latency",
            outcome="inconclusive",
            limit=limits.latency,
            counts=counts,
            too_little=True,
            text=f"{min(counts):,} of {MIN_LATENCIES} samples are there to compare p95 of latency.",
        )
    ratios, most = evidence.costs.latencies, exact(limits.latency)
    alone = ratios.rests_on(most)
    return GateFinding(
        gate="latency",
        outcome=ratios.outcome(most),
        value=round(float(ratios.median), 6),
        limit=limits.latency,
        counts=counts,
        alone=alone,
        text=f"The p95 of latency is {float(ratios.median):.2f} times the active model's on "
        f"{count_of(len(ratios))} (median); {limits.latency:.4g} times may be. Where it is slower "
        f"by {1000 * limits.latency_seconds:.3g} ms or less it counts as equally fast."
        + of_one(alone),
    )


def memory(limits: GatePlan, evidence: Evidence, _: Scope) -> GateFinding | None:
    """Return whether a process with the candidate holds too many times the active one's memory.

    More than half of the devices must exceed the limit. None where the gate is off, or no device
    told both.
    """
    ratios = evidence.costs.memories
    if limits.memory is None or not len(ratios):
        return None
    most = exact(limits.memory)
    alone = ratios.rests_on(most)
    return GateFinding(
        gate="memory",
        outcome=ratios.outcome(most),
        value=round(float(ratios.median), 6),
        limit=limits.memory,
        counts=(len(ratios),),
        alone=alone,
        text=f"It holds {float(ratios.median):.2f} times the memory of the active model on "
        f"{count_of(len(ratios))} (median); {limits.memory:.4g} times may be." + of_one(alone),
    )


def thermal(limits: GatePlan, evidence: Evidence, _: Scope) -> GateFinding | None:
    """Return whether several devices slowed themselves down since they run it.

    None where the gate is off, or no device can tell.
    """
    if limits.throttled_devices is None or not evidence.felt:
        return None
    hot = evidence.throttled
    fails = len(hot) >= limits.throttled_devices
    return GateFinding(
        gate="thermal",
        outcome="fail" if fails else "pass",
        value=len(hot),
        limit=limits.throttled_devices,
        counts=(len(hot), len(evidence.felt)),
        alone=min(hot) if fails and len(hot) == 1 else None,
        text=f"{len(hot)} of {count_of(len(evidence.felt))} that can tell slowed themselves down "
        f"since the switch{': ' + some(sorted(hot)) if hot else ''}; from "
        f"{limits.throttled_devices} on is too many.",
    )


def health(limits: GatePlan, evidence: Evidence, scope: Scope) -> GateFinding:
    """Return whether it failed on too many devices, of those that finished.

    Both the number and the share must be exceeded. Devices that are silent finished nothing: they
    are in neither. Where nobody came through, it is inconclusive even in the first group.
    """
    failed = evidence.failed
    finished = failed | evidence.settled
    if scope.mode == "shadow":
        finished = finished | evidence.comparisons.keys()
    share = Fraction(len(failed), len(finished)) if finished else Fraction(0)
    fails = len(failed) > limits.failed_devices and share > exact(limits.failed_share)
    nobody = len(failed) == len(finished)
    text = f"It failed on {len(failed)} of {count_of(len(finished))} that finished"
    text += f": {some(sorted(failed))}" if failed else ""
    text += (
        f"; {limits.failed_devices} may, and {limits.failed_share:.4g} of them."
        if finished
        else "; none has."
    )
    return GateFinding(
        gate="health",
        outcome="fail" if fails else "inconclusive" if nobody else "pass",
        value=float(share),
        limit=limits.failed_share,
        counts=(len(failed), len(finished)),
        alone=min(failed) if fails and len(failed) == 1 else None,
        text=text + (" It came to run nowhere." if failed and nobody else ""),
    )
