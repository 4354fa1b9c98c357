"""Runs in one picture: accuracy by stage, and accuracy against the bytes it took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleetledger.simulator.metrics.score import say
from fleetledger.simulator.report.contenders import Contender, score_of
from fleetledger.simulator.report.curves import by_stage, mean_by_stage
from fleetledger.simulator.report.numbers import byte_scale
from fleetledger.simulator.report.pictures import style
from fleetledger.simulator.report.pictures.cost import traffic
from fleetledger.simulator.report.pictures.over_time import draw_line, finish, passes_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "os^vDPX*"


def draw_comparison(contenders: Sequence[Contender]) -> Figure:
    """Draw two panels with a line per run; bands are ± one sample deviation over its seeds."""
    figure = style.new_figure(height=4.2 + 0.19 * len(contenders))
    left, right = figure.subplots(1, 2)
    _draw_accuracy(left, contenders)
    _draw_against_bytes(right, contenders)
    style.legend_below(figure)
    return figure


def draw_intervals(contenders: Sequence[Contender]) -> Figure:
    """Draw a row per run: mean of average and last accuracy with its 95 % interval."""
    figure = style.new_figure(height=1.2 + 0.34 * len(contenders))
    axes = figure.subplots()
    shown = (
        ("average_incremental_accuracy", "average", style.BLUE, -0.13),
        ("final_accuracy", "after the last stage", style.VERMILION, 0.13),
    )
    for metric, label, colour, shift in shown:
        found = [
            (row + shift, of)
            for row, item in enumerate(contenders)
            if (of := item.results.summary.get(metric)) is not None
        ]
        axes.errorbar(
            [100 * of.mean for _, of in found],
            [row for row, _ in found],
            xerr=[100 * (of.half_width or 0.0) for _, of in found],
            fmt="o",
            color=colour,
            markersize=5,
            capsize=3,
            label=label,
        )
    style.dress(axes, grid="x")
    axes.set_yticks(range(len(contenders)), [item.name.replace("$", r"\$") for item in contenders])
    axes.set_ylim(len(contenders) - 0.5, -0.5)
    axes.set_xlabel(say(score_of(contenders), "accuracy on all seen classes, %"))
    style.legend_below(figure)
    return figure


def draw_contenders_over_time(contenders: Sequence[Contender]) -> Figure:
    """Draw a line for each run in which the fleet's clock moves while devices train."""
    figure = style.new_figure(height=4.2 + 0.19 * len(contenders))
    axes = figure.subplots()
    drawn: list[float] = []
    for number, item in enumerate(contenders):
        if passes_time(item.results):
            name = item.name.replace("$", r"\$")
            drawn += draw_line(axes, item.results, _look(number)[0], name)
    finish(axes, drawn, score_of(contenders))
    style.legend_below(figure)
    return figure


def _look(number: int) -> tuple[str, str]:
    """Return colour and marker; the pair is another for each of 56 runs."""
    return style.PALETTE[number % len(style.PALETTE)], _MARKERS[
        (number + number // 8) % len(_MARKERS)
    ]


def _draw_accuracy(axes: Axes, contenders: Sequence[Contender]) -> None:
    drawn: list[float] = []
    for number, item in enumerate(contenders):
        values = 100 * by_stage(item.results, lambda stage: stage.accuracy)
        colour, marker = _look(number)
        average, last = values.mean(), values[:, -1].mean()
        label = f"{item.name}: average {average:.1f}, last {last:.1f}".replace("$", r"\$")
        style.line_with_band(axes, values, colour, label, marker)
        drawn += values.ravel().tolist()
    score = score_of(contenders)
    style.dress(axes, say(score, "Accuracy by stage"))
    axes.set_ylabel(say(score, "accuracy on all seen classes, %"))
    style.stage_axis(axes, max(item.results.stages for item in contenders))
    style.percent_axis(axes, drawn)


def _draw_against_bytes(axes: Axes, contenders: Sequence[Contender]) -> None:
    curves = []
    for item in contenders:
        sent = mean_by_stage(item.results, traffic).cumsum()
        curves.append((sent, 100 * mean_by_stage(item.results, lambda stage: stage.accuracy)))
    largest = max(float(sent[-1]) for sent, _ in curves)
    scale, unit = byte_scale(largest)
    for number, (sent, accuracy) in enumerate(curves):
        colour, marker = _look(number)
        axes.plot(sent / scale, accuracy, marker=marker, color=colour, linewidth=1.4, markersize=4)
    least = min(float(sent[0]) for sent, _ in curves)
    if 0 < 30 * least < largest:
        style.logarithmic(axes, "x")
        unit += ", logarithmic"
    style.dress(axes, say(score_of(contenders), "Accuracy against bytes"))
    axes.set_xlabel(f"payload of the fleet so far, {unit}")
    style.percent_axis(axes, [value for _, accuracy in curves for value in accuracy])
