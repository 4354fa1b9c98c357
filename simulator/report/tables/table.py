"""A table as text, and columns that are made from numbers by seed and stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fleetledger.simulator.metrics.metric import Unit
from fleetledger.simulator.metrics.over_seeds import summary
from fleetledger.simulator.report.curves import Floats
from fleetledger.simulator.report.numbers import NOTHING, scale_of

Cells = tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Head and rows of equal length; the first column names the row."""

    title: str
    head: Cells
    rows: tuple[Cells, ...]
    note: str = ""
    """A sentence or two below the table."""


@dataclass(frozen=True)
class TableColumn:
    """A head and its cells from top to bottom."""

    head: str
    cells: Cells


def from_columns(title: str, columns: Sequence[TableColumn], note: str = "") -> Table:
    """Put columns of equal length side by side."""
    rows = tuple(zip(*(column.cells for column in columns), strict=True))
    return Table(title, tuple(column.head for column in columns), rows, note)


def stage_column(stages: int) -> TableColumn:
    """Return the column that numbers the stages."""
    return TableColumn("stage", tuple(str(stage) for stage in range(1, stages + 1)))


def shares(head: str, values: Floats) -> TableColumn:
    """Return a column in percent, mean ± deviation over seeds; `values` is (S, T), NaN unknown."""
    return TableColumn(
        f"{head}, %", tuple(_share(values[:, row]) for row in range(values.shape[1]))
    )


def points(head: str, values: Floats) -> TableColumn:
    """Return the same in percentage points."""
    return TableColumn(f"{head}, points", shares(head, values).cells)


def quantities(head: str, values: Floats, unit: Unit) -> TableColumn:
    """Return a column of means over seeds with one unit, in its head; `values` is (S, T)."""
    mean = values.mean(axis=0)
    scale, name = scale_of(unit, float(np.max(mean, initial=0)))
    return TableColumn(f"{head}, {name}", tuple(f"{value / scale:,.2f}" for value in mean))


def counts(head: str, values: Floats) -> TableColumn:
    """Return a column of mean counts over seeds; a whole number where all seeds agree."""
    mean = values.mean(axis=0)
    return TableColumn(
        head, tuple(f"{value:,.0f}" if value == round(value) else f"{value:,.1f}" for value in mean)
    )


def _share(values: Floats) -> str:
    known = values[np.isfinite(values)]
    if not len(known):
        return NOTHING
    over = summary([100 * float(value) for value in known])
    deviation = "" if over.deviation is None else f" ± {over.deviation:.2f}"
    return f"{over.mean:.2f}{deviation}"


def as_markdown(table: Table) -> str:
    """Return a table in Markdown; numbers stand at the right."""
    marks = (" --- ", *(" ---: " for _ in table.head[1:]))
    rows = [tuple(f" {cell.replace('|', '&#124;')} " for cell in row) for row in _cells(table)]
    return "".join(f"|{'|'.join(row)}|\n" for row in (rows[0], marks, *rows[1:]))


def as_latex(table: Table) -> str:
    r"""Return a table as a LaTeX `tabular` with rules of the package `booktabs`."""
    head, *rows = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in _cells(table)]
    columns = "l" + "r" * (len(table.head) - 1)
    lines = (r"\toprule", head, r"\midrule", *rows, r"\bottomrule")
    return "\n".join((rf"\begin{{tabular}}{{{columns}}}", *lines, r"\end{tabular}", ""))


def _cells(table: Table) -> tuple[Cells, ...]:
    return (table.head, *table.rows)


_IN_TEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\u00a0": "~",
        "±": r"$\pm$",
        "–": "--",
        **{sign: rf"\{sign}" for sign in "&%$#_{}"},
    }
)


def _tex(text: str) -> str:
    return text.translate(_IN_TEX)
