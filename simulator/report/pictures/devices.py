"""How evenly the model serves the devices: spread by stage, and every device after the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.curves import SpreadField, mean_by_stage, of_spread
from fleetledger.simulator.report.pictures.style import (
    BLUE,
    MUTED,
    SKY,
    VERMILION,
    dress,
    new_figure,
    percent_axis,
    stage_axis,
    whole_numbers,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINES: tuple[tuple[SpreadField, str, str, str], ...] = (
    ("mean", "mean device", "o-", BLUE),
    ("fifth_percentile", "5 % of devices are below", "s--", SKY),
    ("lowest", "worst device", "v-", VERMILION),
)

_PERCENTILE_FROM = 20
"""Devices from which on a fifth percentile is something else than the worst."""


def draw_devices(results: RunResults) -> Figure:
    """Draw two panels: mean, fifth percentile and worst device; all devices of the first seed."""
    figure = new_figure(height=3.9)
    left, right = figure.subplots(1, 2)
    _draw_spread(left, results)
    _draw_sorted(right, results)
    return figure


def _draw_spread(axes: Axes, results: RunResults) -> None:
    stages = np.arange(1, results.stages + 1)
    drawn = []
    most = max(stage.devices for stage in results.first.stages)
    for field, name, style, colour in _LINES:
        if field == "fifth_percentile" and most < _PERCENTILE_FROM:
            continue
        take = of_spread(lambda stage: stage.device_accuracy, field)
        mean = 100 * mean_by_stage(results, take)
        axes.plot(stages, mean, style, color=colour, label=name, markersize=5)
        drawn.append(mean)
    dress(axes, "Mean and worst device")
    axes.set_ylabel("accuracy, %")
    stage_axis(axes, results.stages)
    percent_axis(axes, np.concatenate(drawn))
    axes.legend(frameon=False, fontsize=8.5)


def _draw_sorted(axes: Axes, results: RunResults) -> None:
    values = np.sort(
        [100 * item.accuracy for item in results.first.devices if item.accuracy is not None]
    )
    style = "o" if len(values) <= 60 else "-"
    axes.plot(np.arange(1, len(values) + 1), values, style, color=BLUE, markersize=5)
    axes.axhline(100 * results.first.stages[-1].accuracy, color=MUTED, linestyle=":", linewidth=1.2)
    dress(axes, "Each after the last stage")
    axes.set_xlim(1 - 0.02 * len(values) - 0.5, 1.02 * len(values) + 0.5)
    whole_numbers(axes)
    axes.set_xlabel("devices, sorted")
    percent_axis(axes, [*values, 100 * results.first.stages[-1].accuracy])
