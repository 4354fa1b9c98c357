"""Runs as rows, numbers as columns: means, differences, settings; for page, terminal, CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fleetledger.simulator.metrics.headline import metric_of, metrics_of
from fleetledger.simulator.metrics.metric import Metric
from fleetledger.simulator.metrics.over_seeds import PairedDifference
from fleetledger.simulator.metrics.score import name_in_files, say
from fleetledger.simulator.report.contenders import Contender, score_of, setting_rows
from fleetledger.simulator.report.numbers import (
    NOTHING,
    digits,
    scale_of,
    show_difference,
    show_interval,
    show_summary,
)
from fleetledger.simulator.report.tables.table import Table

if TYPE_CHECKING:
    from rich.table import Table as RichTable
    from rich.text import Text as RichText

_IN_TERMINAL = {
    "average_incremental_accuracy": "average",
    "final_accuracy": "last stage",
    "forgetting": "forgetting",
    "bytes_per_device": "per device",
}
"""Name of a number -> head of its column: few enough for 80 characters."""
_CSV_HEAD = (
    "run",
    "metric",
    "unit",
    "mean",
    "deviation",
    "seeds",
    "half_width_95",
    "difference",
    "difference_deviation",
    "difference_low",
    "difference_high",
    "shared_seeds",
)
_CLEAR = "*"


def means_table(contenders: Sequence[Contender], names: Iterable[str] | None = None) -> Table:
    """Return metrics of every run, all if None, mean ± deviation over its seeds."""
    metrics = _known(contenders) if names is None else [metric_of(name) for name in names]
    rows = tuple(
        (item.name, *(show_summary(item.results.summary.get(m.name), m.unit) for m in metrics))
        for item in contenders
    )
    note = "Mean ± sample standard deviation over the seeds of the run."
    return Table("All numbers", _head(contenders, metrics), rows, note)


def intervals_table(contenders: Sequence[Contender]) -> Table:
    """Return the 95 % interval of every mean; without rows where every run has one seed."""
    metrics = _known(contenders)
    rows = tuple(
        (item.name, *(show_interval(item.results.summary.get(m.name), m.unit) for m in metrics))
        for item in contenders
        if len(item.results.seeds) > 1
    )
    note = "Mean over the seeds of the run, and in brackets the 95 % interval of Student's t."
    return Table("Intervals of the means", _head(contenders, metrics), rows, note)


def differences_table(contenders: Sequence[Contender]) -> Table:
    """Return the paired differences of every run against the first."""
    first, *others = contenders
    metrics = _known(contenders)
    rows = tuple(
        (item.name, *(_difference(item.minus(first, m.name), m) for m in metrics))
        for item in others
    )
    note = (
        "Seed by seed over the seeds that both runs have: mean difference, and in brackets the "
        f"95 % interval of Student's t. {_CLEAR} marks intervals that leave out zero."
    )
    title = f"Differences against {first.name}"
    return Table(title, _head(contenders, metrics), rows, note)


def settings_table(contenders: Sequence[Contender]) -> Table:
    """Return the settings in which the scenarios differ."""
    head = ("setting", *(item.name for item in contenders))
    return Table("Settings that differ", head, tuple(setting_rows(contenders)))


_LONGEST_LABEL = 12
"""Characters of a run's name that four numbers leave room for on 80."""


def terminal_table(contenders: Sequence[Contender], warnings: Sequence[str]) -> RichTable:
    """Return the main numbers for a terminal, differences below them, warnings at the foot."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - pages need none of it
    from rich.table import Table as RichTable  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    metrics = [metric for metric in _known(contenders) if metric.name in _IN_TERMINAL]
    labels = _labels(contenders)
    told = "Accuracy in %, mean ± deviation over seeds; below it minus"
    table = RichTable(
        title=Text(f"{say(score_of(contenders), told)} {labels[0]} [95 %]"),
        title_justify="left",
        box=SIMPLE_HEAD,
        caption=_caption(contenders, labels, warnings),
        caption_justify="left",
        padding=(0, 1, 0, 0),
    )
    table.add_column("run")
    scales = {metric.name: _scale(contenders, metric) for metric in metrics}
    for metric in metrics:
        head = f"{_IN_TERMINAL[metric.name]}, {scales[metric.name][1]}"
        table.add_column(head, justify="right", no_wrap=True)
    for item, label in zip(contenders, labels, strict=True):
        cells = [_cell(contenders[0], item, metric, scales[metric.name][0]) for metric in metrics]
        table.add_row(Text(label), *(Text(cell) for cell in cells))
    return table


def _labels(contenders: Sequence[Contender]) -> list[str]:
    """Return the names of the runs, or their numbers where names leave numbers no room."""
    names = [item.name for item in contenders]
    if max(map(len, names)) <= _LONGEST_LABEL:
        return names
    return [f"run {number}" for number in range(1, len(names) + 1)]


def _caption(
    contenders: Sequence[Contender], labels: Sequence[str], warnings: Sequence[str]
) -> RichText:
    """Return what the numbers stand for, and warnings below."""
    from rich.text import Text  # noqa: PLC0415 - pages need none of it

    pairs = zip(labels, contenders, strict=True)
    told = [f"{label}: {item.name}" for label, item in pairs if label != item.name]
    return Text("\n").join([*map(Text, told), *(Text(text, style="yellow") for text in warnings)])


def write_comparison_csv(path: Path, contenders: Sequence[Contender]) -> None:
    """Write a line per run and number; differences are against the first run, shares 0 to 1."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(csv_rows(contenders))


def csv_rows(contenders: Sequence[Contender]) -> Iterator[tuple[object, ...]]:
    """Yield the head of `compare.csv` and its rows."""
    score = score_of(contenders)
    yield _CSV_HEAD
    for item in contenders:
        for metric in metrics_of(item.results.summary):
            row = _csv_row(contenders[0], item, metric)
            yield (item.name, name_in_files(score, metric.name), *row)


def _head(contenders: Sequence[Contender], metrics: Sequence[Metric]) -> tuple[str, ...]:
    score = score_of(contenders)
    return ("run", *(metric.said_title(score) for metric in metrics))


def _known(contenders: Sequence[Contender]) -> list[Metric]:
    return metrics_of(name for item in contenders for name in item.results.summary)


def _difference(difference: PairedDifference | None, metric: Metric) -> str:
    text = show_difference(difference, metric.unit)
    return f"{text} {_CLEAR}" if difference is not None and difference.is_clear else text


def _scale(contenders: Sequence[Contender], metric: Metric) -> tuple[float, str]:
    """Return one scale for a number of all runs."""
    held = [item.results.summary.get(metric.name) for item in contenders]
    return scale_of(metric.unit, max(abs(of.mean) for of in held if of is not None))


def _cell(first: Contender, item: Contender, metric: Metric, scale: float) -> str:
    """Return mean ± deviation, the difference, and its interval, a line each."""
    of = item.results.summary.get(metric.name)
    if of is None:
        return NOTHING
    mean = digits(of.mean / scale, metric.unit)
    deviation = "" if of.deviation is None else f" ± {digits(of.deviation / scale, metric.unit)}"
    difference = None if item is first else item.minus(first, metric.name)
    if difference is None:
        return f"{mean}{deviation}"
    lines = [f"{mean}{deviation}", digits(difference.mean / scale, metric.unit, sign=True)]
    if difference.low is not None and difference.high is not None:
        ends = (
            digits(x / scale, metric.unit, sign=True) for x in (difference.low, difference.high)
        )
        lines.append(f"[{', '.join(ends)}]")
    return "\n".join(lines)


def _csv_row(first: Contender, item: Contender, metric: Metric) -> tuple[object, ...]:
    of = item.results.summary[metric.name]
    difference = None if item is first else item.minus(first, metric.name)
    compared: tuple[object, ...] = ("",) * 5
    if difference is not None:
        compared = (
            difference.mean,
            difference.deviation,
            difference.low,
            difference.high,
            difference.count,
        )
    return (
        metric.unit,
        of.mean,
        of.deviation,
        of.count,
        of.half_width,
        *compared,
    )
