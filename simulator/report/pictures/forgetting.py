"""Forgetting after each stage, and the accuracy on old classes against that on new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.curves import by_stage
from fleetledger.simulator.report.pictures.style import (
    BLUE,
    ORANGE,
    VERMILION,
    dress,
    legend_below,
    line_with_band,
    new_figure,
    percent_axis,
    stage_axis,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_forgetting(results: RunResults) -> Figure:
    """Draw two panels: forgetting in points, and accuracy on old and new classes."""
    figure = new_figure(height=3.8)
    left, right = figure.subplots(1, 2)
    forgotten = 100 * by_stage(results, lambda stage: stage.forgetting)
    line_with_band(left, forgotten, VERMILION, "forgetting")
    dress(left, "Forgetting")
    left.set_ylabel(results.say("points of accuracy"))
    left.set_ylim(0, max(1.0, 1.15 * float(forgotten.max())))
    stage_axis(left, results.stages)
    old = 100 * by_stage(results, lambda stage: stage.old_accuracy)
    new = 100 * by_stage(results, lambda stage: stage.new_accuracy)
    line_with_band(right, new, ORANGE, "classes of the newest stage", "s")
    line_with_band(right, old, BLUE, "classes of all earlier stages")
    dress(right, "Old and new classes")
    right.set_ylabel(results.say("accuracy, %"))
    stage_axis(right, results.stages)
    percent_axis(right, [*np.ravel(old), *np.ravel(new)])
    legend_below(figure)
    return figure
