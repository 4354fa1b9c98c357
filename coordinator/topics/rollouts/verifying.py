"""A verdict made again from the entries that it names, and compared with what was recorded.

The laws, for a ledger that nobody touched: what is made again is what is recorded, on every
machine; and the entries named are all reports of the rollout that stood before the verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from coordinator.core.entry import EntryBody
from coordinator.core.formatting import some
from coordinator.topics.models.entries import DeviceModelStatus
from coordinator.topics.rollouts.entries import GateFinding, ModelCompared, RolloutMeasured
from coordinator.topics.rollouts.evidence import Evidence
from coordinator.topics.rollouts.plan import GatePlan
from coordinator.topics.rollouts.scope import Scope
from coordinator.topics.rollouts.verdict import judge
from schemas.values import DeviceId

_LAST_DIGIT = 0.0015
"""Of a logarithm of evidence, which is told with three decimals; counts and outcomes are exact."""
_LOGARITHMS = frozenset({"retention", "no_class_lost"})


@dataclass(frozen=True)
class StoredReport:
    """An entry that a verdict may be made of."""

    index: int
    device: DeviceId | None
    body: EntryBody


def differences(
    measured: RolloutMeasured,
    limits: GatePlan,
    scope: Scope,
    named: Sequence[StoredReport],
    reports: Sequence[int],
) -> list[str]:
    """Return in words how a recorded verdict differs from what it is said to be made of.

    `named` are the entries that it names, as far as the ledger has them; `reports` the indices of
    all reports of its rollout before it. Empty where everything is as recorded.
    """
    found = list(_unnamed(measured.entries, reports))
    evidence = Evidence()
    for report in named:
        if not _take(evidence, report, measured.rollout):
            found.append(f"entry {report.index} is no report of rollout {measured.rollout}")
    known = {report.index for report in named}
    if gone := [index for index in measured.entries if index not in known]:
        found.append(f"entries that it names are not there: {some(gone)}")
    verdict = judge(limits, evidence, scope)
    if verdict.outcome != measured.outcome:
        found.append(f"outcome: recorded {measured.outcome}, made again {verdict.outcome}")
    return [*found, *_unlike(measured.gates, verdict.gates)]


def _unnamed(entries: Sequence[int], reports: Sequence[int]) -> Iterator[str]:
    if left_out := sorted(set(reports) - set(entries)):
        yield f"reports of the rollout before it that it does not name: {some(left_out)}"
    if strange := sorted(set(entries) - set(reports)):
        yield f"it names what is no report of the rollout before it: {some(strange)}"
    if len(set(entries)) != len(entries):
        yield "it names an entry twice"
    elif list(entries) != sorted(entries):
        yield "it does not name its entries in their order"


def _take(evidence: Evidence, report: StoredReport, rollout: int) -> bool:
    """Take a report into evidence; return whether it is one."""
    index, device, body = report.index, report.device, report.body
    if device is None:
        return False
    if isinstance(body, ModelCompared) and body.comparison.rollout == rollout:
        evidence.compare(index, device, body.comparison)
    elif isinstance(body, DeviceModelStatus) and body.state == "settled":
        evidence.settle(index, device, body.throttled)
    elif isinstance(body, DeviceModelStatus) and body.state in ("failed", "rolled_back"):
        evidence.fail(index, device)
    else:
        return False
    return True


def _unlike(recorded: Iterable[GateFinding], made: Iterable[GateFinding]) -> Iterator[str]:
    there, here = ({one.gate: one for one in findings} for findings in (recorded, made))
    for gate in sorted({*there, *here}):
        if gate not in here:
            yield f"{gate}: recorded, but made again it says nothing"
        elif gate not in there:
            yield f"{gate}: not recorded, made again it is {here[gate].outcome}"
        else:
            yield from _fields(there[gate], here[gate])


def _fields(recorded: GateFinding, made: GateFinding) -> Iterator[str]:
    for name in ("outcome", "of_class", "counts", "value", "limit", "alone", "too_little"):
        there, here = getattr(recorded, name), getattr(made, name)
        if there != here and not (name == "value" and _is_close(recorded, made)):
            yield f"{recorded.gate}.{name}: recorded {there}, made again {here}"


def _is_close(recorded: GateFinding, made: GateFinding) -> bool:
    """Whether both are the same logarithm, as far as two machines can agree on one."""
    if recorded.gate not in _LOGARITHMS or recorded.value is None or made.value is None:
        return False
    return abs(recorded.value - made.value) < _LAST_DIGIT
