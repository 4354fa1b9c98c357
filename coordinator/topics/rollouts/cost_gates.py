"""Gates on what the model takes on devices: time, memory, heat; and on devices where it failed."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from coordinator.core.formatting import count_of, some
from coordinator.topics.rollouts.entries import GateFinding
from coordinator.topics.rollouts.evidence import Evidence, Sums
from coordinator.topics.rollouts.plan import GatePlan
from coordinator.topics.rollouts.resting import of_one, rests_on
from coordinator.topics.rollouts.scope import Scope, exact
from schemas.rollouts import LATENCY_BINS, LATENCY_FIRST_SECONDS, LATENCY_RATIO

MIN_LATENCIES = 100
"""Of fewer samples of either model a p95 says nothing: fewer than five lie above it."""
_EDGES = tuple(
    exact(LATENCY_FIRST_SECONDS) * exact(LATENCY_RATIO) ** number
    for number in range(LATENCY_BINS + 1)
)
"""Where bins begin, in seconds; exact, so that a p95 is the same on every machine."""


def latency(limits: GatePlan, evidence: Evidence, _: Scope) -> GateFinding | None:
    """Return whether the candidate's p95 is too many times, and by too much, the active one's.

    None where the gate is off.
    """
    if limits.latency is None:
        return None
    most, by = exact(limits.latency), exact(limits.latency_seconds)

    def is_slow(sums: Sums) -> bool:
        if _is_short(sums):
            return False
        active, candidate = p95(sums.active.latency), p95(sums.candidate.latency)
        return candidate > most * active and candidate - active > by

    sums = evidence.sums
    counts = (sum(sums.active.latency), sum(sums.candidate.latency))
    if _is_short(sums):
        return GateFinding(
            gate="latency",
            outcome="inconclusive",
            limit=limits.latency,
            counts=counts,
            too_little=True,
            text=f"{min(counts)} of {MIN_LATENCIES} samples are there to compare p95 of latency.",
        )
    active, candidate = p95(sums.active.latency), p95(sums.candidate.latency)
    fails = is_slow(sums)
    alone = rests_on(evidence, is_slow) if fails else None
    return GateFinding(
        gate="latency",
        outcome="fail" if fails else "pass",
        value=float(candidate / active),
        limit=limits.latency,
        counts=counts,
        alone=alone,
        text=f"The p95 of latency is {float(candidate / active):.2f} times the active model's, "
        f"{_milliseconds(candidate)} against {_milliseconds(active)}; {limits.latency:.4g} times "
        f"may be, and less than {_milliseconds(by)} more is no matter." + of_one(alone),
    )


def memory(limits: GatePlan, evidence: Evidence, _: Scope) -> GateFinding | None:
    """Return whether a process with the candidate holds too many times the active one's memory.

    None where the gate is off, or no device told both.
    """
    sums = evidence.sums
    if limits.memory is None or not sums.active.resident_bytes:
        return None
    most = exact(limits.memory)

    def is_large(sums: Sums) -> bool:
        return sums.candidate.resident_bytes > most * sums.active.resident_bytes

    fails = is_large(sums)
    alone = rests_on(evidence, is_large) if fails else None
    counts = (sums.active.resident_bytes, sums.candidate.resident_bytes)
    return GateFinding(
        gate="memory",
        outcome="fail" if fails else "pass",
        value=counts[1] / counts[0],
        limit=limits.memory,
        counts=counts,
        alone=alone,
        text=f"It holds {counts[1] / counts[0]:.2f} times the memory of the active model; "
        f"{limits.memory:.4g} times may be." + of_one(alone),
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


def p95(histogram: Sequence[int]) -> Fraction:
    """Return the 95th percentile of latencies in seconds, linear within its bin.

    `histogram` has `LATENCY_BINS` counts, at least one above 0.
    """
    rank = -(-95 * sum(histogram) // 100)
    for number, count in enumerate(histogram):
        if count and rank <= count:
            begins, ends = _EDGES[number], _EDGES[number + 1]
            return begins + (ends - begins) * Fraction(rank, count)
        rank -= count
    raise ValueError("no latencies; there is no percentile of nothing")


def _is_short(sums: Sums) -> bool:
    return min(sum(sums.active.latency), sum(sums.candidate.latency)) < MIN_LATENCIES


def _milliseconds(seconds: Fraction) -> str:
    return f"{1000 * float(seconds):.3g} ms"
