"""The picture of a table: accuracy after each task, mean over the seeds, a panel for each family.

Every panel has all rows of as many tasks in grey, and its own family's in colours with what they
end at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.papers.footing.markdown import Runs

_APART = 4.2
"""Points between the middles of two labels, which are then just apart."""
_COLOURS = 10
"""As many as matplotlib's default cycle has."""


@dataclass(frozen=True)
class Curve:
    """A row of a table; its line begins on the left with the first task's accuracy."""

    title: str
    runs: Runs
    family: str
    """What its panel is called."""

    @property
    def means(self) -> npt.NDArray[np.float64]:
        """Return the mean over the seeds after each task, in percent."""
        return np.mean([run["accuracy"] for run in self.runs.values()], axis=0)


def draw(curves: Sequence[Curve], unit: str, path: Path) -> None:
    """Draw families in the order of their first curves; nothing where there are none."""
    if not curves:
        return
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    families = list(dict.fromkeys(curve.family for curve in curves))
    rows = -(-len(families) // 2)
    figure, panels = plt.subplots(
        rows, 2, figsize=(12.5, 0.5 + 3.9 * rows), sharex=True, sharey=True, squeeze=False
    )
    for panel, family in zip(panels.flat, families, strict=False):
        own = [curve for curve in curves if curve.family == family]
        for curve in curves:
            if len(curve.means) == len(own[0].means):
                tasks = range(1, len(curve.means) + 1)
                panel.plot(tasks, curve.means, color="0.85", linewidth=0.8, zorder=1)
        _family(panel, own)
        panel.set_title(family, loc="left", fontsize=10, fontweight="bold")
        panel.set_xlabel(unit, fontsize=8)
        panel.tick_params(labelsize=8, labelbottom=True, labelleft=True)
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.set_ylim(0, 100)
        panel.grid(visible=True, alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in panels.flat[len(families) :]:
        panel.set_visible(False)
    for panel in panels[:, 0]:
        panel.set_ylabel("accuracy on all classes so far, %", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _family(panel: Any, curves: Sequence[Curve]) -> None:  # noqa: ANN401 - axes of matplotlib
    """Draw lines in colours, and beside their ends what they are called and end at."""
    ordered = sorted(curves, key=lambda curve: -curve.means[-1])
    places = spread_out([float(curve.means[-1]) for curve in ordered], _APART)
    for number, (curve, place) in enumerate(zip(ordered, places, strict=True)):
        means, colour = curve.means, f"C{number}"
        style = ("-", "--")[number // _COLOURS % 2]
        panel.plot(range(1, len(means) + 1), means, style, color=colour, linewidth=1.6, zorder=2)
        panel.annotate(
            f"{means[-1]:.1f}  {curve.title.replace('`', '')}",
            (len(means), means[-1]),
            xytext=(1.03, place / 100),
            textcoords="axes fraction",
            color=colour,
            fontsize=7,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.6, "relpos": (0, 0.5)},
        )


def spread_out(values: Sequence[float], apart: float) -> list[float]:
    """Return falling values moved so that neighbours lie `apart`, as near as that can be.

    Groups that are too near are spread around their mean, and joined with what they then touch.
    """
    groups: list[list[float]] = []
    for value in values:
        groups.append([value])
        while len(groups) > 1 and _lowest(groups[-2], apart) - _highest(groups[-1], apart) < apart:
            groups[-2:] = [groups[-2] + groups[-1]]
    return [
        _highest(group, apart) - apart * number for group in groups for number in range(len(group))
    ]


def _highest(group: Sequence[float], apart: float) -> float:
    return sum(group) / len(group) + apart * (len(group) - 1) / 2


def _lowest(group: Sequence[float], apart: float) -> float:
    return _highest(group, apart) - apart * (len(group) - 1)
