"""Two heat maps of stages against stages: the accuracy a_{t,i}, and tasks taken for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.curves import Floats, accuracy_matrix, task_confusion
from fleetledger.simulator.report.pictures.style import INK, MUTED, dress, new_figure, stage_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_MOST_NUMBERS = 12
"""Stages up to which every cell has its number."""


def draw_matrix(results: RunResults) -> Figure:
    """Draw a_{t,i} in percent: a row per stage, a column per task."""
    values = 100 * accuracy_matrix(results)
    lowest = 10 * np.floor(float(np.nanmin(values)) / 10) - 10
    return _draw(
        values,
        max(0.0, float(lowest)),
        ("classes that came with stage", "after stage"),
        results.say("accuracy, %"),
    )


def draw_confusion(results: RunResults) -> Figure:
    """Draw which share of each task's samples is answered with a class of which task.

    Of pixels, background stands before the tasks.
    """
    of_pixels = results.score == "mIoU"
    return _draw(
        100 * task_confusion(results),
        0.0,
        ("answered with a class of stage", "true class is of stage"),
        f"share of the row's {'pixels' if of_pixels else 'samples'}, %",
        before=("none",) if of_pixels else (),
    )


def _draw(
    values: Floats,
    lowest: float,
    labels: tuple[str, str],
    legend: str,
    before: tuple[str, ...] = (),
) -> Figure:
    """Draw percentages with colours from `lowest` to 100; rows `before` are of no stage."""
    stages = len(values)
    side = float(np.clip(0.5 * stages, 2.6, 5.4))
    figure = new_figure(side + 2.4, side + 0.8)
    axes = figure.add_subplot()
    image = axes.imshow(np.ma.masked_invalid(values), cmap="YlGnBu", vmin=lowest, vmax=100)
    dress(axes, grid="")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    ticks = stage_ticks(stages - len(before))
    names = [*before, *(str(tick) for tick in ticks)]
    places = [*range(len(before)), *(tick - 1.0 + len(before) for tick in ticks)]
    axes.set_xticks(places, names)
    axes.set_yticks(places, names)
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    add_bar(figure, image, axes, legend)
    if stages <= _MOST_NUMBERS:
        write_numbers(axes, values, white_from=lowest + 0.55 * (100 - lowest))
    return figure


def add_bar(figure: Figure, image: AxesImage, axes: Axes, legend: str) -> None:
    """Say beside a heat map what its colours mean."""
    bar = figure.colorbar(image, ax=axes, shrink=0.85)
    bar.set_label(legend, color=INK, size=9.5)
    bar.ax.tick_params(colors=MUTED, labelcolor=INK, labelsize=9)
    bar.outline.set_visible(False)


def write_numbers(axes: Axes, values: Floats, white_from: float) -> None:
    """Write each number that is there into its cell, white from a value on."""
    places = 1 if values.shape[1] <= 8 else 0
    for row, column in zip(*np.nonzero(np.isfinite(values)), strict=True):
        value = values[row, column]
        axes.text(
            column,
            row,
            f"{value:.{places}f}",
            ha="center",
            va="center",
            fontsize=8.5,
            color="white" if value > white_from else INK if value >= 1 else MUTED,
        )
