"""The verdict on a rollout: what all its gates say of the evidence that there is.

- Where any gate fails the rollout fails, and at once: accuracy is judged by evidence that may be
  looked at after every report.
- What rests on one device alone a person decides, a pass as well as a failure. So does what is
  inconclusive once everybody of the group has reported, or time is up.
- Too little is never a pass where it is about accuracy, except in the first group, which only tries
  whether the model runs at all. What devices cannot measure asks nothing.
- A verdict is a function of the reports, and of no order among them, no clock and no machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleetledger.coordinator.topics.rollouts.evidence import Evidence
from fleetledger.coordinator.topics.rollouts.gates import GATES, GateFinding, ask, gate_of
from fleetledger.coordinator.topics.rollouts.plan import GatePlan
from fleetledger.coordinator.topics.rollouts.scope import Outcome, Scope

_HOLDING: tuple[Outcome, ...] = ("fail", "inconclusive")


@dataclass(frozen=True)
class RolloutVerdict:
    """What all gates say together."""

    outcome: Outcome
    """`fail` stops at once; `pass` and `inconclusive` count once everybody has reported."""
    gates: tuple[GateFinding, ...]
    """What each says, without those that are off or that nobody could measure."""
    deciding: tuple[GateFinding, ...] = ()
    """Those that make it fail, or make it inconclusive."""

    @property
    def reason(self) -> str:
        """The verdict in words."""
        if self.deciding:
            return " ".join(finding.text for finding in self.deciding)
        unsure = [one.gate for one in self.gates if one.outcome == "inconclusive"]
        if not unsure:
            return "All gates pass."
        return f"No gate fails; too little to tell: {', '.join(unsure)}."

    @property
    def rests_on_one(self) -> bool:
        """Whether it fails, but without some one device would not: then it only pauses."""
        return self.outcome == "fail" and all(one.alone is not None for one in self.deciding)


def judge(limits: GatePlan, evidence: Evidence, scope: Scope) -> RolloutVerdict:
    """Return what the gates say of all evidence so far.

    It takes time that grows with the number of classes; with that of devices only where it fails.
    """
    found = (ask(gate, limits, evidence, scope) for gate in GATES)
    gates = tuple(finding for finding in found if finding is not None)
    for outcome in _HOLDING:
        deciding = tuple(one for one in gates if one.outcome == outcome and _counts(one, scope))
        if deciding:
            return RolloutVerdict(outcome, gates, deciding)
    return RolloutVerdict("pass", gates)


def _counts(finding: GateFinding, scope: Scope) -> bool:
    """Whether what does not pass holds the rollout."""
    key = (finding.gate, finding.of_class)
    if key in scope.forgiven:
        return False
    if finding.outcome == "fail":
        return True
    if key in scope.overlooked:
        return False
    return not finding.too_little or (gate_of(finding.gate).needed and scope.group > 1)
