"""Pictures with their masks side by side: truth, what an older and what the newest model says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fleetledger.device_agent.samples.sources.masks import BACKGROUND, IGNORED, values_in
from fleetledger.learning.numerics.palette import voc_colours
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.report.pictures.style import INK, MUTED, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Mask = NDArray[np.uint8]
_PANEL, _LEGEND_ROW = 1.9, 0.22
"""Inches of a panel's side and of a row of the legend."""
_ALONE = 6
"""Scenes up to which each has a row of its own."""
_GAP = 0.2
"""Between two scenes of a row, in panels."""
_HEADING = 9.5
_LEGEND_CHARACTERS = 16
"""That a column of the legend has room for beside a panel's width; longer names take two."""


@dataclass(frozen=True)
class SegmentedScene:
    """A picture, uint8 (3, h, w), with masks of its size, uint8 (h, w), each under its heading.

    The first mask is the truth. Where it is 255 nothing is asked, and nothing drawn of the others.
    """

    picture: NDArray[np.uint8]
    masks: Mapping[str, Mask]


def draw_segmentation(scenes: Sequence[SegmentedScene], class_names: Sequence[ClassName]) -> Figure:
    """Draw each scene with its masks beside it, and a legend of the classes that are seen.

    A row has a scene, of many scenes two. Value v is `class_names[v - 1]`. Raises `MetricsError`
    where there is no scene, or where scenes have other headings, or masks another size than their
    picture or a value of no class.
    """
    headings = _checked_headings(scenes, class_names)
    shown = [_shown(scene) for scene in scenes]
    seen = sorted({value for masks in shown for mask in masks for value in values_in(mask)})
    beside = 1 if len(scenes) <= _ALONE else 2
    columns = (1 + len(headings)) * beside
    per_row = _legend_columns(columns, [_name(value, class_names) for value in seen])
    tallest = max(scene.picture.shape[1] / scene.picture.shape[2] for scene in scenes)
    rows = -(-len(scenes) // beside)
    legend = 0.35 + _LEGEND_ROW * -(-len(seen) // per_row)
    width = _PANEL * (columns + _GAP * (beside - 1))
    figure = new_figure(width, _PANEL * tallest * rows + legend)
    grid = _panels(figure, rows, len(headings) + 1, beside)
    for axes, scene, masks in zip(grid, scenes, shown, strict=False):
        _show(axes[0], scene.picture.transpose(1, 2, 0))
        for panel, mask in zip(axes[1:], masks, strict=True):
            _show(panel, voc_colours()[mask])
    for axes in grid[:beside]:
        for panel, heading in zip(axes, ("picture", *headings), strict=True):
            panel.set_title(heading, fontsize=_HEADING * beside**0.5, color=INK)
    for axes in grid[len(scenes) :]:
        for panel in axes:
            panel.set_axis_off()
    _add_legend(figure, seen, class_names, per_row)
    return figure


def _panels(figure: Figure, rows: int, columns: int, beside: int) -> list[list[Axes]]:
    """Return the panels of each scene, row by row, with a gap between scenes of a row."""
    widths = ([1.0] * columns + [_GAP]) * beside
    grid = figure.subplots(rows, len(widths) - 1, squeeze=False, width_ratios=widths[:-1])
    for gap in grid[:, columns :: columns + 1].ravel():
        gap.set_axis_off()
    starts = range(0, len(widths), columns + 1)
    return [list(row[start : start + columns]) for row in grid for start in starts]


def _checked_headings(
    scenes: Sequence[SegmentedScene], class_names: Sequence[ClassName]
) -> list[str]:
    if not scenes or not scenes[0].masks:
        raise MetricsError("scenes: none with a mask; give at least one with its truth")
    headings = list(scenes[0].masks)
    for number, scene in enumerate(scenes):
        if list(scene.masks) != headings:
            raise MetricsError(
                f"scenes: number {number} has masks {', '.join(scene.masks)} beside "
                f"{', '.join(headings)} of the first; give all the same"
            )
        for heading, mask in scene.masks.items():
            _check(scene, heading, mask, len(class_names))
        unsaid = [head for head in headings[1:] if (scene.masks[head] == IGNORED).any()]
        if unsaid:
            raise MetricsError(f"{unsaid[0]}: value 255; a model says something of every pixel")
    return headings


def _check(scene: SegmentedScene, heading: str, mask: Mask, classes: int) -> None:
    if mask.shape != scene.picture.shape[1:]:
        raise MetricsError(
            f"{heading}: mask of shape {mask.shape} beside a picture of {scene.picture.shape}; "
            "give a value for every pixel"
        )
    wrong = [value for value in values_in(mask) if value > classes and value != IGNORED]
    if wrong:
        raise MetricsError(f"{heading}: value {wrong[0]} is no class; there are 1 to {classes}")


def _shown(scene: SegmentedScene) -> list[Mask]:
    """Return the masks as they are drawn, with 255 wherever nothing is asked."""
    truth = next(iter(scene.masks.values()))
    return [np.where(truth == IGNORED, truth, mask) for mask in scene.masks.values()]


def _show(axes: Axes, pixels: NDArray[np.uint8]) -> None:
    axes.imshow(pixels, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color(MUTED)
    axes.spines[:].set_linewidth(0.5)


def _legend_columns(panels: int, names: Sequence[str]) -> int:
    longest = max(len(name) for name in names)
    return max(1, min(len(names), panels * _LEGEND_CHARACTERS // (longest + 5)))


def _add_legend(
    figure: Figure, values: Sequence[int], class_names: Sequence[ClassName], columns: int
) -> None:
    from matplotlib.patches import Patch  # noqa: PLC0415 - half a second

    colours = voc_colours() / 255
    figure.legend(
        handles=[
            Patch(
                facecolor=tuple(colours[value]),
                edgecolor=MUTED,
                linewidth=0.5,
                label=_name(value, class_names),
            )
            for value in values
        ],
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
        labelcolor=INK,
        handlelength=1.2,
    )


def _name(value: int, class_names: Sequence[ClassName]) -> str:
    if value == BACKGROUND:
        return "background"
    name = "not asked" if value == IGNORED else str(class_names[value - 1])
    return name.replace("$", r"\$")
