"""A heat map of classes against stages: how well the pixels of each class are told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.curves import class_iou
from fleetledger.simulator.report.pictures.distribution import short
from fleetledger.simulator.report.pictures.heat_maps import add_bar, write_numbers
from fleetledger.simulator.report.pictures.style import MUTED, dress, new_figure, stage_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_NUMBERS = (40, 12)
"""Classes and stages up to which every cell has its number."""
_MOST_NAMED = 60
"""Rows up to which each has its name; of more, some have."""


def has_class_iou(results: RunResults) -> bool:
    """Tell whether classes of pixels were scored."""
    return any(stage.class_iou for stage in results.first.stages)


def draw_class_iou(results: RunResults) -> Figure:
    """Draw a row for background and each class, a column for each stage; lines between tasks."""
    found = class_iou(results)
    values = 100 * np.array(list(found.values()))
    rows, stages = values.shape
    height = 0.24 * min(rows, _MOST_NAMED) if rows > 8 else 0.32 * rows
    figure = new_figure(float(np.clip(0.62 * stages, 2.4, 6.0)) + 3.0, max(1.6, height) + 0.9)
    axes = figure.add_subplot()
    image = axes.imshow(
        np.ma.masked_invalid(values),
        cmap="YlGnBu",
        vmin=0,
        vmax=100,
        aspect="auto",
        interpolation="nearest",
    )
    dress(axes, grid="")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    ticks = stage_ticks(stages)
    axes.set_xticks([tick - 1.0 for tick in ticks], [str(tick) for tick in ticks])
    axes.set_xlabel("after stage")
    named = range(0, rows, -(-rows // _MOST_NAMED))
    names = [short(name) for name in found]
    axes.set_yticks(list(named), [names[row] for row in named])
    for end in np.cumsum([1, *(len(stage.class_names) for stage in results.first.stages)])[:-1]:
        axes.axhline(float(end) - 0.5, color=MUTED, linewidth=0.6 if stages <= 12 else 0.3)
    add_bar(figure, image, axes, "IoU, %")
    if rows <= _MOST_NUMBERS[0] and stages <= _MOST_NUMBERS[1]:
        write_numbers(axes, values, white_from=55)
    return figure
