"""Who holds which classes: a heat map of classes against devices, with images per device above."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fleetledger.runtime.count_words import count_of
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.seed_metrics import Distribution
from fleetledger.simulator.report.curves import Floats
from fleetledger.simulator.report.pictures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_MOST_NAMED = 30
"""Devices, and classes, up to which each is named."""
_MOST_NUMBERS = 240
"""Cells up to which each has its number."""


def draw_distribution(results: RunResults) -> Figure:
    """Draw the first seed's training images by class and device.

    Classes stand in the order of coming, with a line between stages.
    """
    held = results.first.distribution
    counts = np.array(held.samples, np.float64).T
    height = float(np.clip(0.24 * len(counts), 2.4, 5.2))
    figure = style.new_figure(height=height + 1.9)
    above, axes = figure.subplots(2, 1, sharex=True, height_ratios=(1, height / 0.8))
    image = _draw_map(axes, counts)
    _label_devices(axes, held)
    _label_classes(axes, held, [len(stage.class_names) for stage in results.first.stages])
    above.bar(np.arange(counts.shape[1]), counts.sum(axis=0), width=0.86, color=style.BLUE)
    style.dress(above)
    above.tick_params(length=0, axis="x", labelbottom=False)
    above.set_ylabel("images\nper device")
    bar = figure.colorbar(image, ax=[above, axes], shrink=0.8, pad=0.02)
    bar.set_label("training images, square-root colour scale", color=style.INK, size=9.5)
    bar.ax.tick_params(colors=style.MUTED, labelcolor=style.INK, labelsize=9)
    bar.outline.set_visible(False)
    return figure


def _draw_map(axes: Axes, counts: Floats) -> AxesImage:
    from matplotlib.colors import PowerNorm  # noqa: PLC0415 - as in `style`

    high = max(1.0, float(counts.max(initial=0)))
    image = axes.imshow(
        np.ma.masked_equal(counts, 0),
        cmap="YlGnBu",
        norm=PowerNorm(0.5, 0, high),
        aspect="auto",
        interpolation="nearest",
    )
    style.dress(axes, grid="")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    if counts.size <= _MOST_NUMBERS:
        for row, column in zip(*np.nonzero(counts), strict=True):
            value = counts[row, column]
            axes.text(
                column,
                row,
                f"{value:.0f}",
                ha="center",
                va="center",
                fontsize=8,
                color="white" if value > 0.3 * high else style.INK,
            )
    return image


def _label_devices(axes: Axes, held: Distribution) -> None:
    shown = len(held.devices)
    if shown <= _MOST_NAMED:
        names = [name.removeprefix("device-") for name in held.devices]
        axes.set_xticks(range(shown), names)
        axes.set_xlabel("device")
        return
    axes.set_xticks([])
    part = "all" if shown == held.devices_in_fleet else f"{shown} evenly chosen of"
    axes.set_xlabel(
        f"{part} {count_of(held.devices_in_fleet, 'device')}, sorted by the classes they hold"
    )


def _label_classes(axes: Axes, held: Distribution, sizes: list[int]) -> None:
    ends = np.cumsum(sizes)
    for end in ends[:-1]:
        axes.axhline(end - 0.5, color=style.MUTED, linewidth=0.6 if len(sizes) <= 12 else 0.3)
    if len(held.class_names) <= _MOST_NAMED:
        axes.set_yticks(range(len(held.class_names)), [short(name) for name in held.class_names])
        axes.set_ylabel("class, in the order of coming")
        return
    middles = ends - np.array(sizes) / 2 - 0.5
    chosen = style.stage_ticks(len(sizes))
    axes.set_yticks([float(middles[stage - 1]) for stage in chosen], [str(n) for n in chosen])
    axes.set_ylabel("classes, by the stage of coming")


def short(name: str) -> str:
    """Return at most 16 characters, without what matplotlib takes for a formula."""
    text = name if len(name) <= 16 else f"{name[:15]}…"
    return text.replace("$", r"\$")
