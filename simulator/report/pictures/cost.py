"""What a run cost: what accuracy took, wall time by phase, and bytes on the wire, by stage."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.seed_metrics import DeviceSpread, StageMetrics
from fleetledger.simulator.report.curves import Floats, mean_by_stage, of_spread, phases
from fleetledger.simulator.report.numbers import byte_scale, count, second_scale, show
from fleetledger.simulator.report.pictures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SMALLEST, _LARGEST = 60.0, 520.0
"""Areas of the marks, in points squared."""


def traffic(stage: StageMetrics) -> float:
    """Return the payload bytes of a stage, both directions, of the whole fleet."""
    return stage.bytes_up.total + stage.bytes_down.total


def draw_cost(results: RunResults) -> Figure:
    """Draw a mark per stage at what the fleet has sent, received and computed by its end."""
    figure = style.new_figure(height=4.6)
    axes = figure.add_subplot()
    sent = mean_by_stage(results, traffic).cumsum()
    compute = mean_by_stage(results, lambda stage: stage.compute_seconds.total).cumsum()
    stored = _stored(results)
    accuracy = 100 * mean_by_stage(results, lambda stage: stage.accuracy)
    scale, unit = byte_scale(float(sent[-1]))
    seconds, second_unit = second_scale(float(compute[-1]))
    axes.plot(sent / scale, accuracy, color="0.8", linewidth=1.2, zorder=1)
    marks = axes.scatter(
        sent / scale,
        accuracy,
        c=compute / seconds,
        s=_areas(stored),
        cmap="viridis_r",
        vmin=0,
        edgecolor="white",
        linewidth=0.8,
        zorder=2,
    )
    _name_stages(axes, sent / scale, accuracy, np.sqrt(_areas(stored)) / 2)
    style.dress(axes)
    axes.set_xlabel(f"payload of the fleet, up and down, since the beginning, {unit}")
    axes.set_ylabel(results.say("accuracy on all seen classes, %"))
    axes.set_xlim(0, 1.06 * max(float(sent[-1] / scale), 1e-9))
    style.percent_axis(axes, accuracy)
    bar = figure.colorbar(marks, ax=axes, pad=0.02)
    bar.set_label(f"device compute since the beginning, {second_unit}", color=style.INK, size=9.5)
    bar.ax.tick_params(colors=style.MUTED, labelcolor=style.INK, labelsize=9)
    bar.outline.set_visible(False)
    _size_legend(axes, stored)
    return figure


def stores_samples(results: RunResults) -> bool:
    """Tell whether devices store samples, which the sizes of the marks then show."""
    return bool(_stored(results).max(initial=0))


def _stored(results: RunResults) -> Floats:
    return mean_by_stage(results, lambda stage: stage.stored_samples.total)


def _areas(stored: Floats) -> Floats:
    """Return areas that grow with the samples in the fleet; small ones where nothing is stored."""
    high = float(stored.max(initial=0))
    return _SMALLEST + (_LARGEST - _SMALLEST) * stored / high if high else stored + 2 * _SMALLEST


def _name_stages(axes: Axes, x: Floats, y: Floats, radius: Floats) -> None:
    shown = np.unique(np.linspace(0, len(x) - 1, min(len(x), 10)).round().astype(int))
    for number in shown:
        axes.annotate(
            f"stage {number + 1}" if number in (0, len(x) - 1) else f"{number + 1}",
            (x[number], y[number]),
            xytext=(0, 4 + radius[number]),
            textcoords="offset points",
            ha="center",
            fontsize=8.5,
            color=style.INK,
        )


def _size_legend(axes: Axes, stored: Floats) -> None:
    """Say what the sizes mean, at the lowest and the highest number of stored samples."""
    if not stored.max(initial=0):
        axes.annotate(
            "no device stores samples",
            (0.99, 0.94),
            xycoords="axes fraction",
            ha="right",
            fontsize=9,
            color=style.MUTED,
        )
        return
    for value in sorted({float(stored.min()), float(stored.max())}):
        area = float(_areas(stored)[stored == value][0])
        axes.scatter([], [], s=area, color="0.7", label=f"{count(value)} samples stored")
    axes.legend(
        loc="upper right", frameon=False, fontsize=9, labelcolor=style.INK, labelspacing=1.2
    )


_GREYS = {"fleet": "0.6", "other": "0.78"}
"""Of what is the rest of something, so that the phases have all colours."""
_MOST_NAMED = 25
"""Stages up to which each bar has its sum."""


def has_times(results: RunResults) -> bool:
    """Tell whether any time was measured; a stage learned before a resumption has none."""
    return any(values.sum() > 0 for values in phases(results).values())


def draw_times(results: RunResults) -> Figure:
    """Draw a bar per stage, stacked by phase, with its sum; mean over seeds."""
    found = {name: values for name, values in phases(results).items() if values.any()}
    stages = np.arange(1, results.stages + 1)
    figure = style.new_figure(height=float(np.clip(1.5 + 0.3 * len(stages), 2.4, 7.0)))
    axes = figure.add_subplot()
    total = np.sum(list(found.values()), axis=0)
    scale, unit = second_scale(float(total.max()))
    left = np.zeros(len(stages))
    colours = cycle(style.PALETTE)
    for name, seconds in found.items():
        colour = _GREYS.get(name) or next(colours)
        axes.barh(stages, seconds / scale, left=left, height=0.72, color=colour, label=name)
        left += seconds / scale
    if len(stages) <= _MOST_NAMED:
        for stage, seconds in zip(stages, total, strict=True):
            axes.annotate(
                show(float(seconds), "seconds"),
                (seconds / scale, stage),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
                color=style.INK,
            )
    style.dress(axes, grid="x")
    axes.set_ylim(len(stages) + 0.6, 0.4)
    axes.set_yticks(style.stage_ticks(len(stages)))
    axes.set_xlim(0, 1.12 * float(total.max()) / scale)
    axes.set_xlabel(f"wall time, {unit}")
    axes.set_ylabel("stage")
    style.legend_below(figure)
    return figure


_LOGARITHMIC_FROM = 30.0
"""Ratio of the largest to the smallest number from which an axis is logarithmic."""
_DIRECTIONS: tuple[tuple[str, str, Callable[[StageMetrics], DeviceSpread]], ...] = (
    ("up, devices to coordinator", style.BLUE, lambda stage: stage.bytes_up),
    ("down, coordinator to devices", style.ORANGE, lambda stage: stage.bytes_down),
)


def draw_traffic(results: RunResults) -> Figure:
    """Draw two panels: bytes of the fleet, and of a device (mean as a bar, highest as a mark)."""
    figure = style.new_figure(height=4.0)
    left, right = figure.subplots(1, 2)
    _draw_bars(left, [mean_by_stage(results, of_spread(take, "total")) for *_, take in _DIRECTIONS])
    style.dress(left, "The whole fleet")
    highest = [mean_by_stage(results, of_spread(take, "highest")) for *_, take in _DIRECTIONS]
    _draw_bars(
        right,
        [mean_by_stage(results, of_spread(take, "mean")) for *_, take in _DIRECTIONS],
        highest,
    )
    style.dress(right, "One device (line: highest)")
    for axes in (left, right):
        style.stage_axis(axes, results.stages)
    style.legend_below(figure)
    return figure


def _draw_bars(axes: Axes, values: list[Floats], marks: list[Floats] | None = None) -> None:
    """Draw a bar per direction and stage; `marks` are written as lines above the bars."""
    everything = np.concatenate([*values, *(marks or [])])
    scale, unit = byte_scale(float(everything.max(initial=0)))
    stages = np.arange(1, len(values[0]) + 1)
    for number, (name, colour, _) in enumerate(_DIRECTIONS):
        place = stages + 0.38 * (number - 0.5)
        label = name if marks is None else None
        axes.bar(place, values[number] / scale, 0.36, color=colour, label=label)
        if marks is not None:
            high = marks[number] / scale
            axes.hlines(high, place - 0.18, place + 0.18, color=colour, linewidth=1.8)
    some = everything[everything > 0]
    if len(some) and some.max() > _LOGARITHMIC_FROM * some.min():
        style.logarithmic(axes, "y")
        unit += ", logarithmic"
    axes.set_ylabel(f"payload per stage, {unit}")
