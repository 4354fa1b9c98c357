"""Bytes on the wire by stage: of the whole fleet, and of its devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.seed_metrics import DeviceSpread, StageMetrics
from fleetledger.simulator.report.curves import Floats, mean_by_stage, of_spread
from fleetledger.simulator.report.numbers import byte_scale
from fleetledger.simulator.report.pictures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
