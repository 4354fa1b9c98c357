"""A rollout in tables: its seeds, and its gates group by group."""

from __future__ import annotations

from fleetledger.coordinator.topics.rollouts.gates import GateFinding
from fleetledger.runtime.count_words import count_of
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.numbers import NOTHING, count, show
from fleetledger.simulator.report.tables.table import Table
from fleetledger.simulator.rollouts.record import PhaseRecord, RolloutRecord

_SIGNS = {"pass": "✓", "fail": "✕", "inconclusive": "?"}


def rollout_table(results: RunResults) -> Table:
    """Return a row for each seed."""
    head = (
        "seed",
        "candidate",
        "end",
        "groups opened",
        "devices that ran it",
        "of",
        "failed",
        "unreached",
        "comparisons",
        "fleet's time",
    )
    rows = tuple(
        _row(seed, metrics.rollout)
        for seed, metrics in results.seeds.items()
        if metrics.rollout is not None
    )
    note = (
        "Failed: devices on which the candidate could not be installed, or did not run. Unreached: "
        "devices that were away when their group opened, without which it went on."
    )
    return Table("The rollout", head, rows, note)


def gate_table(record: RolloutRecord) -> Table:
    """Return the gates of the first seed's rollout: a row for each, a column for each phase."""
    decided = [phase for phase in record.phases if phase.outcome is not None]
    names = dict.fromkeys(finding.gate for phase in decided for finding in phase.gates)
    rows = [_whole_row(decided)] + [
        (name.replace("_", " "), *(_cell(phase, name) for phase in decided)) for name in names
    ]
    head = ("gate", *(_phase_name(phase) for phase in decided))
    note = (
        "✓ passes, ✕ fails, ? is inconclusive: too little was measured. Beside it stand the value "
        "and the limit; evidence is log e. The first seed."
    )
    return Table("Gates by group", head, tuple(rows), note)


def _row(seed: int, record: RolloutRecord) -> tuple[str, ...]:
    return (
        str(seed),
        record.candidate,
        record.end,
        count(len({phase.group for phase in record.phases})),
        count(record.ever),
        count(record.devices),
        count(record.failed),
        count(record.unreached),
        count(record.compared),
        show(record.seconds, "seconds"),
    )


def _phase_name(phase: PhaseRecord) -> str:
    beside = " beside the active model" if phase.mode == "shadow" else ""
    noun = "device" if phase.devices == 1 else "devices"
    return f"group {phase.group}, {count(phase.devices)} {noun}{beside}"


def _whole_row(decided: list[PhaseRecord]) -> tuple[str, ...]:
    return "all", *(f"{_SIGNS[phase.outcome or 'pass']} {phase.outcome}" for phase in decided)


def _cell(phase: PhaseRecord, name: str) -> str:
    found = next((finding for finding in phase.gates if finding.gate == name), None)
    return NOTHING if found is None else f"{_SIGNS[found.outcome]} {_figures(found)}".rstrip()


def _figures(found: GateFinding) -> str:
    """Return class, value and limit of a finding, as far as it has them."""
    words = [] if found.of_class is None else [f"{found.of_class}:"]
    if found.value is not None:
        words.append(f"{found.value:.3g}")
        words += [] if found.limit is None else [f"of {found.limit:.3g}"]
    return " ".join(words)


def verdict_sentence(record: RolloutRecord) -> str:
    """Return what became of a rollout, and how many devices ran the candidate meanwhile."""
    ran = f"{count(record.ever)} of {count_of(record.devices, 'device')} ever ran it"
    what = f"Model {record.version} ({record.candidate})"
    why = f": {record.reason.rstrip('.')}" if record.reason else ""
    ended = "is still going out" if record.end == "open" else f"was {record.end}"
    if record.end == "finished":
        ended = "has passed all groups"
    return f"{what} {ended}{why}. {ran}; it took {show(record.seconds, 'seconds')}."
