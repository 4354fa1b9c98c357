"""The table at the end: one row per stage."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from simulator.demo.results import StageResult, shortened, task_scores, traffic_of_stage

_COLUMNS = (
    "stage",
    "classes",
    "devices\n%",
    "pooled\nfloat64 %",
    "difference\npoints",
    "forgetting\npoints",
    "up\nKiB",
    "down\nKiB",
    "time\ns",
)
"""Narrow enough for 80 characters."""


def stage_table(results: Sequence[StageResult], pooled: Sequence[float]) -> Table:
    """Return the table; `pooled` holds the reference's accuracy (0 to 1) after each stage."""
    table = Table(
        title="Accuracy on all classes seen so far, measured by the agents in ONNX Runtime",
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column == "classes" else "right", no_wrap=True)
    for position in range(len(results)):
        table.add_row(*_row(results, pooled, position))
    return table


def _row(results: Sequence[StageResult], pooled: Sequence[float], position: int) -> list[str]:
    result = results[position]
    up, down = traffic_of_stage(results, position)
    difference = 100 * (result.accuracy - pooled[position])
    return [
        str(result.stage),
        shortened(result.class_names),
        f"{100 * result.accuracy:.2f}",
        f"{100 * pooled[position]:.2f}",
        f"{difference:+.2f}",
        f"{100 * task_scores(results).forgetting(after=position):.2f}",
        f"{up / 1024:,.0f}",
        f"{down / 1024:,.0f}",
        f"{result.seconds:.1f}",
    ]
