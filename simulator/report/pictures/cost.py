"""What accuracy cost: bytes along x, device compute as colour, stored samples as size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.seed_metrics import StageMetrics
from fleetledger.simulator.report.curves import Floats, mean_by_stage
from fleetledger.simulator.report.numbers import byte_scale, count, second_scale
from fleetledger.simulator.report.pictures.style import INK, MUTED, dress, new_figure, percent_axis

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
    figure = new_figure(height=4.6)
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
    dress(axes)
    axes.set_xlabel(f"payload of the fleet, up and down, since the beginning, {unit}")
    axes.set_ylabel(results.say("accuracy on all seen classes, %"))
    axes.set_xlim(0, 1.06 * max(float(sent[-1] / scale), 1e-9))
    percent_axis(axes, accuracy)
    bar = figure.colorbar(marks, ax=axes, pad=0.02)
    bar.set_label(f"device compute since the beginning, {second_unit}", color=INK, size=9.5)
    bar.ax.tick_params(colors=MUTED, labelcolor=INK, labelsize=9)
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
            color=INK,
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
            color=MUTED,
        )
        return
    for value in sorted({float(stored.min()), float(stored.max())}):
        area = float(_areas(stored)[stored == value][0])
        axes.scatter([], [], s=area, color="0.7", label=f"{count(value)} samples stored")
    axes.legend(loc="upper right", frameon=False, fontsize=9, labelcolor=INK, labelspacing=1.2)
