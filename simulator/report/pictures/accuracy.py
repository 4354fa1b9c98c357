"""Accuracy after each stage, with the curves that papers printed for the same protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fleetledger.runtime.count_words import count_of
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.curves import Floats, by_stage, classes_seen, mean_by_stage
from fleetledger.simulator.report.pictures import style
from fleetledger.simulator.scenario.sections import PublishedCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_NUMBERS = 12
"""Stages up to which every point has its number."""
_BESIDE = (13.0, -14.0, 29.0, -30.0)
"""Heights of a number's middle over its point, in points, the first that is clear counts."""
_REACH = 12.0
"""Points between the middles of a number and of a mark that do not touch."""


def draw_accuracy(results: RunResults) -> Figure:
    """Draw the mean over seeds with its deviation, and every published curve dashed."""
    published = [
        (curve, style.PALETTE[1 + number % (len(style.PALETTE) - 1)])
        for number, curve in enumerate(results.scenario.published)
    ]
    figure = style.new_figure(height=4.4 + 0.19 * len(published))
    axes = figure.add_subplot()
    values = 100 * by_stage(results, lambda stage: stage.accuracy)
    pooled = 100 * mean_by_stage(results, lambda stage: stage.pooled_accuracy)
    if np.isfinite(pooled).any():
        _draw_pooled(axes, pooled)
    style.line_with_band(axes, values, style.BLUE, _label(results, values))
    for curve, colour in published:
        draw_published(axes, curve, colour, results.stages)
    style.dress(axes)
    axes.set_ylabel(results.say("accuracy on all seen classes, %"))
    style.stage_axis(axes, results.stages, classes_seen(results))
    printed = [value for curve, _ in published for value in _numbers(curve)]
    style.percent_axis(axes, [*values.ravel(), *printed, *pooled])
    finals = [(results.stages, c.final) for c, _ in published if c.final is not None]
    stages = range(1, len(pooled) + 1)
    _write_numbers(axes, values, [*zip(stages, map(float, pooled), strict=True), *finals])
    style.legend_below(figure)
    return figure


def draw_published(axes: Axes, curve: PublishedCurve, colour: str, stages: int) -> None:
    """Draw a printed curve dashed; where only numbers are printed, a line and a mark.

    The average is a dotted line over all stages, the last accuracy a cross at the last stage.
    """
    label = _published_label(curve)
    if curve.accuracy:
        numbers = np.arange(1, len(curve.accuracy) + 1)
        axes.plot(numbers, curve.accuracy, "--", color=colour, linewidth=1.5, label=label)
        return
    if curve.average is not None:
        axes.plot([1, stages], [curve.average] * 2, ":", color=colour, linewidth=1.8, label=label)
    if curve.final is not None:
        alone = label if curve.average is None else None
        axes.plot(
            [stages], [curve.final], "X", color=colour, markersize=9, label=alone, linestyle="none"
        )


def _draw_pooled(axes: Axes, pooled: Floats) -> None:
    axes.plot(
        np.arange(1, len(pooled) + 1),
        pooled,
        "s",
        color=style.INK,
        markersize=9,
        markerfacecolor="none",
        label=f"pooled images, ridge regression in float64: average {pooled.mean():.1f}, "
        f"last {pooled[-1]:.1f}",
    )


def _numbers(curve: PublishedCurve) -> list[float]:
    return [*curve.accuracy, *(x for x in (curve.average, curve.final) if x is not None)]


def _published_label(curve: PublishedCurve) -> str:
    if curve.accuracy:
        mean = sum(curve.accuracy) / len(curve.accuracy)
        return f"{curve.label}, printed: average {mean:.1f}, last {curve.accuracy[-1]:.1f}"
    kinds = [
        f"{kind} {value:.1f}"
        for kind, value in (("average (dotted)", curve.average), ("last (cross)", curve.final))
        if value is not None
    ]
    return f"{curve.label}, printed: {', '.join(kinds)}"


def _label(results: RunResults, values: Floats) -> str:
    mean = f"average {values.mean():.1f}, last {values[:, -1].mean():.1f}"
    if len(values) == 1:
        return f"this run: {mean}"
    return f"this run, {count_of(len(results.seeds), 'seed')}, ± one standard deviation: {mean}"


def _write_numbers(axes: Axes, values: Floats, marks: Sequence[tuple[int, float]]) -> None:
    """Write the mean beside its points, where no mark (stage, percent) lies under the number."""
    mean = values.mean(axis=0)
    shown = range(len(mean)) if len(mean) <= _MOST_NUMBERS else (0, len(mean) - 1)
    for position in shown:
        axes.annotate(
            f"{mean[position]:.1f}",
            (position + 1, mean[position]),
            xytext=(0, _clear(axes, (position + 1, float(mean[position])), marks)),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=8.5,
            color=style.INK,
            bbox={
                "boxstyle": "round,pad=0.12",
                "facecolor": "white",
                "alpha": 0.75,
                "linewidth": 0,
            },
        )


def _clear(axes: Axes, point: tuple[int, float], marks: Sequence[tuple[int, float]]) -> float:
    """Return the height over a point, in points, at which no mark of its stage is in the way."""
    points_per_pixel = 72 / axes.figure.dpi
    height = axes.transData.transform(point)[1]
    others = [
        (axes.transData.transform(mark)[1] - height) * points_per_pixel
        for mark in marks
        if mark[0] == point[0] and np.isfinite(mark[1])
    ]
    free = (at for at in _BESIDE if all(abs(other - at) >= _REACH for other in others))
    return next(free, _BESIDE[0])


def draw_forgetting(results: RunResults) -> Figure:
    """Draw two panels: forgetting in points, and accuracy on old and new classes."""
    figure = style.new_figure(height=3.8)
    left, right = figure.subplots(1, 2)
    forgotten = 100 * by_stage(results, lambda stage: stage.forgetting)
    style.line_with_band(left, forgotten, style.VERMILION, "forgetting")
    style.dress(left, "Forgetting")
    left.set_ylabel(results.say("points of accuracy"))
    left.set_ylim(0, max(1.0, 1.15 * float(forgotten.max())))
    style.stage_axis(left, results.stages)
    old = 100 * by_stage(results, lambda stage: stage.old_accuracy)
    new = 100 * by_stage(results, lambda stage: stage.new_accuracy)
    style.line_with_band(right, new, style.ORANGE, "classes of the newest stage", "s")
    style.line_with_band(right, old, style.BLUE, "classes of all earlier stages")
    style.dress(right, "Old and new classes")
    right.set_ylabel(results.say("accuracy, %"))
    style.stage_axis(right, results.stages)
    style.percent_axis(right, [*np.ravel(old), *np.ravel(new)])
    style.legend_below(figure)
    return figure
