"""Forgetting after each stage, and the accuracy on old classes against that on new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.curves import by_stage
from fleetledger.simulator.report.pictures import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
