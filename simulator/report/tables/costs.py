"""What it cost: bytes on the wire, wall time by phase, memory."""

from __future__ import annotations

from fleetledger.simulator.metrics.headline import metric_of
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.curves import by_stage, phases
from fleetledger.simulator.report.numbers import percent, show
from fleetledger.simulator.report.tables.table import (
    Table,
    counts,
    from_columns,
    quantities,
    stage_column,
)

_PHASES = {
    "features": "the frozen network's features of what devices hold",
    "statistics": "devices make statistics of their features",
    "training": "devices train",
    "waiting": "the host waits for a GPU: for what it still computes, and copies back",
    "workers": "waiting for programs beside this one that train",
    "looking": "devices that do not train look at their images with the fleet's model",
    "comparison": "devices compare a candidate with what they run",
    "proxy": "the proxy works",
    "intake": "answers are checked",
    "sums": "answers are added to the sum",
    "hashing": "answers are hashed",
    "solve": "sums, averages and heads are made",
    "export": "models are exported",
    "ledger": "entries are written to the ledger",
    "fleet": "the rest: messages, rules, stores",
    "evaluation": "the model is measured",
    "other": "in no phase",
}
"""What is done in a phase; the engines' names of phases are those of `StageRecord.seconds`."""


def wire_table(results: RunResults) -> Table:
    """Return the payload of each stage: of the fleet, and of its devices."""
    columns = (
        stage_column(results.stages),
        quantities("fleet up", by_stage(results, lambda s: s.bytes_up.total), "bytes"),
        quantities("fleet down", by_stage(results, lambda s: s.bytes_down.total), "bytes"),
        quantities("device up: mean", by_stage(results, lambda s: s.bytes_up.mean), "bytes"),
        quantities("device up: highest", by_stage(results, lambda s: s.bytes_up.highest), "bytes"),
        quantities("device down: mean", by_stage(results, lambda s: s.bytes_down.mean), "bytes"),
        quantities(
            "device down: highest", by_stage(results, lambda s: s.bytes_down.highest), "bytes"
        ),
        counts("contributions", by_stage(results, lambda s: s.contributions)),
    )
    note = (
        "Payload bytes that the transport counted, control messages and blocks together. The last "
        "column: contributions in the sum of the model. Means over seeds."
    )
    return from_columns("Bytes by stage", columns, note)


def time_table(results: RunResults) -> Table:
    """Return wall time by phase, device compute, the fleet's own time and memory."""
    phase_columns = tuple(
        quantities(name, values[None], "seconds") for name, values in phases(results).items()
    )
    compute = by_stage(results, lambda stage: stage.compute_seconds.total)
    slowest = by_stage(results, lambda stage: stage.compute_seconds.highest)
    columns = (
        stage_column(results.stages),
        *phase_columns,
        quantities("all", by_stage(results, lambda stage: stage.wall_seconds), "seconds"),
        quantities("device compute: fleet", compute, "seconds"),
        quantities("device compute: highest", slowest, "seconds"),
        quantities("fleet's clock", by_stage(results, lambda s: s.fleet_seconds), "seconds"),
        quantities("peak memory", by_stage(results, lambda s: s.peak_memory_mib), "mebibytes"),
    )
    note = (
        "Wall time of the machine that simulated the fleet, and the compute of its devices on that "
        "machine. Memory is the highest so far. Means over seeds."
    )
    return from_columns("Seconds and memory by stage", columns, note)


def profile_table(results: RunResults) -> Table:
    """Return where the wall time of all stages went, the longest phase first."""
    spent = {name: float(values.sum()) for name, values in phases(results).items()}
    whole = sum(spent.values())
    rows = [
        (name, show(seconds, "seconds"), percent(seconds / whole), _PHASES.get(name, ""))
        for name, seconds in sorted(spent.items(), key=lambda item: -item[1])
        if seconds
    ]
    pace = results.summary.get("answers_per_second")
    told = "" if pace is None else f" Answers of devices: {_pace(pace.mean)}."
    note = (
        "Wall time of all stages of a seed; a phase that is not measured apart is part of the one "
        f"around it. Means over seeds.{told}"
    )
    return Table("Profile", ("phase", "time", "share, %", "what is done"), tuple(rows), note)


def _pace(answers: float) -> str:
    return show(answers, metric_of("answers_per_second").unit)
