"""The table at the end of a run: what it measured, beside what papers print."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from fleetledger.simulator.metrics.headline import metric_of
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.numbers import show_summary
from fleetledger.simulator.scenario.sections import PublishedCurve

SHOWN = (
    "average_incremental_accuracy",
    "final_accuracy",
    "pooled_difference",
    "forgetting",
    "old_accuracy",
    "new_accuracy",
    "worst_device_accuracy",
    "bytes_per_device",
    "detection_missed",
    "tasks_missed",
    "detection_false_alarms",
    "wall_seconds",
    "answers_per_second",
    "peak_memory_mib",
)
"""The report has all numbers, and these on one screen."""
MOST_CURVES = 3
"""Published columns that one screen has room for; the report has all."""


def summary_title(results: RunResults) -> str:
    """Return what the table is of."""
    number = len(results.seeds)
    over = f"mean ± deviation of {number} seeds" if number > 1 else "one seed"
    return f"{results.scenario.title}: {over}"


def summary_table(results: RunResults) -> Table:
    """Return the headline numbers, mean ± deviation over seeds, and the published ones."""
    curves = results.scenario.published[:MOST_CURVES]
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    table.add_column("this run", justify="right", no_wrap=True)
    for curve in curves:
        table.add_column(escape(curve.label), justify="right")
    for name in SHOWN:
        if name in results.summary:
            printed = [_published(curve, name) for curve in curves]
            told = show_summary(results.summary[name], metric_of(name).unit)
            table.add_row(metric_of(name).said_title(results.score), told, *printed)
    return table


def _published(curve: PublishedCurve, name: str) -> str:
    values = {"average_incremental_accuracy": curve.average, "final_accuracy": curve.final}
    value = values.get(name)
    return "" if value is None else f"{value:.2f} %"
