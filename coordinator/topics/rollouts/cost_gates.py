"""Gates on what the model takes on devices: time, memory, heat; and on devices where it failed.

Groups follow from a hash of the rollout and a device's name. So a share of all devices is in a
group as if drawn by chance. Numbers are binomial tails, to 50 digits on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from fleetledger.coordinator.core.phrases import count_of, some
from fleetledger.coordinator.topics.rollouts.evidence import Evidence
from fleetledger.coordinator.topics.rollouts.gate import GateResult
from fleetledger.coordinator.topics.rollouts.plan import GatePlan
from fleetledger.coordinator.topics.rollouts.ranking import of_one
from fleetledger.coordinator.topics.rollouts.scope import Outcome, Scope, exact
from fleetledger.runtime.count_words import agree
from fleetledger.schemas.values import DeviceId

MIN_LATENCIES = 100
"""Samples of either model, of fewer of which a p95 says nothing."""
UNLIKELY = Decimal(1) / 200
"""Chance with which more devices than `most_by_chance` report it."""
_DIGITS = Context(prec=50)


def latency(limits: GatePlan, evidence: Evidence, scope: Scope) -> GateResult:
    """Return whether the candidate's p95 is too many times the active one's.

    The ratio is that of each device, 1 where the difference is no matter, and more than half of
    the group must exceed the limit.
    """
    assert limits.latency is not None
    counts = tuple(evidence.costs.timed)
    if min(counts) < MIN_LATENCIES:
        return GateResult(
            outcome="inconclusive",
            limit=limits.latency,
            counts=counts,
            too_little=True,
            text=f"{min(counts):,} of {count_of(MIN_LATENCIES, 'sample')} "
            f"{agree(min(counts), 'is', 'are')} there to compare "
            f"p95 of latency.",
        )
    ratios, most = evidence.costs.latencies, exact(limits.latency)
    outcome, alone, why = ratios.says(most, scope.members)
    return GateResult(
        outcome=outcome,
        value=round(float(ratios.median), 6),
        limit=limits.latency,
        counts=counts,
        alone=alone,
        text=f"The p95 of latency is {float(ratios.median):.2f} times the active model's on "
        f"{count_of(len(ratios))} (median); {limits.latency:.4g} times may be. Where it is slower "
        f"by {1000 * limits.latency_seconds:.3g} ms or less it counts as equally fast." + why,
    )


def memory(limits: GatePlan, evidence: Evidence, scope: Scope) -> GateResult | None:
    """Return whether a process with the candidate holds too many times the active one's memory.

    More than half of the group must exceed the limit. None where no device told both.
    """
    ratios = evidence.costs.memories
    if not len(ratios):
        return None
    assert limits.memory is not None
    outcome, alone, why = ratios.says(exact(limits.memory), scope.members)
    return GateResult(
        outcome=outcome,
        value=round(float(ratios.median), 6),
        limit=limits.memory,
        counts=(len(ratios),),
        alone=alone,
        text=f"It holds {float(ratios.median):.2f} times the memory of the active model on "
        f"{count_of(len(ratios))} (median); {limits.memory:.4g} times may be." + why,
    )


def thermal(limits: GatePlan, evidence: Evidence, scope: Scope) -> GateResult | None:
    """Return whether more devices slowed themselves down since they run it than chance explains.

    None where no device can tell.
    """
    if not evidence.felt:
        return None
    assert limits.throttled_devices is not None
    hot, felt = evidence.throttled, len(evidence.felt)
    allowed = _Allowed.of(limits.throttled_devices, limits.throttled_share, limits.liars)
    outcome, alone = allowed.says(hot, felt, scope)
    return GateResult(
        outcome=outcome,
        value=len(hot),
        limit=allowed.most(scope.members),
        counts=(len(hot), felt),
        alone=alone,
        text=f"{len(hot)} of {count_of(felt)} that can tell slowed themselves down "
        f"since the switch{_named(hot)}; {allowed.words(scope)}." + of_one(alone),
    )


def health(limits: GatePlan, evidence: Evidence, scope: Scope) -> GateResult:
    """Return whether it failed on more devices than chance explains.

    Devices that are silent failed nothing. Where nobody came through, it is inconclusive even in
    the first group.
    """
    failed = evidence.failed
    finished = failed | evidence.settled
    if scope.mode == "shadow":
        finished = finished | evidence.comparisons.keys()
    allowed = _Allowed.of(limits.failed_devices, limits.failed_share, limits.liars)
    outcome, alone = allowed.says(failed, len(finished), scope)
    nobody = len(failed) == len(finished)
    if nobody and outcome == "pass":
        outcome = "inconclusive"
    text = f"It failed on {len(failed)} of {count_of(len(finished))} that finished{_named(failed)}"
    text += f"; {allowed.words(scope)}." if finished else "; none has."
    return GateResult(
        outcome=outcome,
        value=len(failed),
        limit=allowed.most(scope.members),
        counts=(len(failed), len(finished)),
        alone=alone,
        text=text + of_one(alone) + (" It came to run nowhere." if failed and nobody else ""),
    )


@dataclass(frozen=True)
class _Allowed:
    """Devices that may report something: a number, and a share of all."""

    devices: int
    share: Fraction
    """Of all devices, those that may lie among them."""

    @classmethod
    def of(cls, devices: int, share: float, liars: float) -> _Allowed:
        """Return what a plan allows."""
        return cls(devices, exact(share) + exact(liars))

    def most(self, devices: int) -> int:
        """Return how many of so many devices may report it before the share is exceeded."""
        return max(self.devices, most_by_chance(devices, self.share))

    def says(
        self, reported: set[DeviceId], told: int, scope: Scope
    ) -> tuple[Outcome, DeviceId | None]:
        """Return what a number of devices means, and the device on which a failure rests.

        It fails where the whole group is no excuse, so nobody gains by being the first. Once it
        ends, a person is asked where those that `told` anything, or all devices that it is about,
        are too few for chance.
        """
        count, most = len(reported), self.most(scope.members)
        if count > most:
            return "fail", min(reported) if count == most + 1 else None
        about = max(scope.devices, scope.members)
        of_all = count > self.devices and count > self.share * about
        return "inconclusive" if of_all or count > self.most(told) else "pass", None

    def words(self, scope: Scope) -> str:
        """Return the limit as the end of a sentence."""
        share = "" if not self.share else f" and {float(self.share):.4g} of all devices"
        return f"{self.devices}{share} may, so it fails from {self.most(scope.members) + 1} on"


def _named(devices: set[DeviceId]) -> str:
    return f": {some(sorted(devices))}" if devices else ""


@lru_cache(1024)
def most_by_chance(devices: int, share: Fraction) -> int:
    """Return how many devices report something by chance in all but one of 200 groups.

    Each of `devices` does so with the probability `share`, independently of the others.
    """
    if share >= 1:
        return devices
    with localcontext(_DIGITS):
        chance = Decimal(share.numerator) / Decimal(share.denominator)
        term = (1 - chance) ** devices
        more, count = 1 - term, 0
        while more > UNLIKELY:
            term *= (devices - count) * chance / ((count + 1) * (1 - chance))
            more -= term
            count += 1
    return count
