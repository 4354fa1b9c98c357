"""A verdict made again from the entries that it names, and compared with what was recorded.

The laws, for a ledger that nobody touched: what is made again is what is recorded, on every
machine; and the entries named are all reports of the rollout that stood before the verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import ValidationError

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.phrases import some
from fleetledger.coordinator.core.state import State, read_entry
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.topics.rollouts.entries import RolloutMeasured
from fleetledger.coordinator.topics.rollouts.evidence import Evidence
from fleetledger.coordinator.topics.rollouts.gates import GateFinding, gate_of
from fleetledger.coordinator.topics.rollouts.kinds import REPORTS, apply_report
from fleetledger.coordinator.topics.rollouts.plan import GatePlan
from fleetledger.coordinator.topics.rollouts.scope import Outcome, Scope
from fleetledger.coordinator.topics.rollouts.state import Rollout
from fleetledger.coordinator.topics.rollouts.verdict import judge
from fleetledger.runtime.command_report import Report
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.message import explain
from fleetledger.schemas.rollouts import Mode
from fleetledger.schemas.values import DeviceId

_LAST_DIGIT = 0.0015
"""Of a logarithm of evidence, which is told with three decimals; counts and outcomes are exact."""


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
    evidence = Evidence(limits, scope.judges)
    for report in named:
        if report.device is None or not apply_report(
            evidence, measured.rollout, report.body, report.device, report.index
        ):
            found.append(
                f"entry {report.index} is no report that counts in rollout {measured.rollout}"
            )
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
    if recorded.value is None or made.value is None:
        return False
    return gate_of(made.gate).logarithm and abs(recorded.value - made.value) < _LAST_DIGIT


class VerdictAgain(Strict):
    """A verdict that was recorded, and what came of making it again."""

    index: int
    """The entry with it."""
    group: int
    mode: Mode
    outcome: Outcome
    reports: int
    """Entries that it is made of."""
    devices: int
    """Members of the group, and of those before it."""
    equal: bool
    differences: tuple[str, ...]


class RolloutVerifyReport(Report):
    """What `rollout verify` shows."""

    lines_field: ClassVar[str | None] = "verdicts"
    rollout: int
    version: int
    entries: int
    """Of the ledger, that were read."""
    equal: bool
    """Whether every verdict came out as recorded."""
    verdicts: tuple[VerdictAgain, ...]
    """In the order of the ledger."""

    def above(self) -> Iterator[str]:
        """Return each verdict, how it differs, and how many came out as recorded."""
        for one in self.verdicts:
            came = "equal" if one.equal else "DIFFERS"
            shadow = " in the shadow" if one.mode == "shadow" else ""
            yield (
                f"entry {one.index}: group {one.group}{shadow}, {one.outcome}, of "
                f"{count_of(one.reports, 'report')} on {count_of(one.devices, 'device')}: {came}"
            )
            yield from (f"  {difference}" for difference in one.differences)
        counted = sum(one.equal for one in self.verdicts)
        yield (
            f"rollout {self.rollout}: {counted} of {len(self.verdicts)} verdicts came out as "
            f"recorded, from {count_of(self.entries, 'entry', 'entries')}"
        )


def verify_rollout(entries: Iterable[Entry], number: int) -> RolloutVerifyReport:
    """Return every verdict of a rollout made again, of all entries of a ledger from the first on.

    The state before each verdict is folded anew: who belonged to the group, what was reported, and
    what a person had forgiven. Raises `CommandError` where there is no such rollout, or an entry
    is of no kind that this program knows.
    """
    state, reports = State(), dict[int, StoredReport]()
    verdicts = []
    for entry in entries:
        body = _read(entry)
        if isinstance(body, REPORTS):
            reports[entry.index] = StoredReport(entry.index, entry.device, body)
        if isinstance(body, RolloutMeasured) and body.rollout == number:
            verdicts.append(_again(entry.index, body, state.rollouts.by_number[number], reports))
        state.apply(body, entry.device, entry.time_ns)
    rollout = state.rollouts.by_number.get(number)
    if rollout is None:
        raise CommandError(
            f"rollout: {number} is none of the "
            f"{count_of(state.size, 'entry', 'entries')} that were read"
        )
    return RolloutVerifyReport(
        rollout=number,
        version=rollout.planned.version,
        entries=state.size,
        equal=all(one.equal for one in verdicts),
        verdicts=tuple(verdicts),
    )


def _read(entry: Entry) -> EntryBody:
    try:
        return read_entry(entry.kind, entry.body)
    except KeyError as error:
        raise CommandError(
            f"entry {entry.index}: is a {entry.kind}, which this program does not know; "
            "verify it with the one that wrote it"
        ) from error
    except ValidationError as error:
        raise CommandError(f"entry {entry.index}: {explain(error)}") from error


def _again(
    index: int, measured: RolloutMeasured, rollout: Rollout, reports: dict[int, StoredReport]
) -> VerdictAgain:
    scope = rollout.scope(measured.group, measured.mode)
    named = [reports[one] for one in measured.entries if one in reports]
    found = [
        *_of_phase(measured, rollout),
        *differences(
            measured,
            rollout.planned.plan.gates,
            scope,
            named,
            rollout.evidence.entries,
        ),
    ]
    return VerdictAgain(
        index=index,
        group=measured.group,
        mode=measured.mode,
        outcome=measured.outcome,
        reports=len(measured.entries),
        devices=measured.members,
        equal=not found,
        differences=tuple(found),
    )


def _of_phase(measured: RolloutMeasured, rollout: Rollout) -> Iterator[str]:
    phase = rollout.phase
    if phase is None or (phase.group, phase.mode) != (measured.group, measured.mode):
        yield "it is of a phase of a group that was not open"
    if len(rollout.members) != measured.members:
        yield f"members: recorded {measured.members}, made again {len(rollout.members)}"
