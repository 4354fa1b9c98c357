"""Where the wall time went: phases of each stage, on the machine that simulated the fleet."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.curves import phases
from fleetledger.simulator.report.numbers import second_scale, show
from fleetledger.simulator.report.pictures import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
