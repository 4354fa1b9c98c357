"""The picture of a table: accuracy after each task, mean over the seeds, a line for each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.papers.footing.markdown import Runs


@dataclass(frozen=True)
class Curve:
    """A row of a table; its line begins on the left with the first task's accuracy."""

    title: str
    runs: Runs
    style: str = "-"
    """As matplotlib writes lines."""


def draw(curves: Sequence[Curve], unit: str, path: Path) -> None:
    """Draw curves in the order of the legend; nothing where there are none."""
    if not curves:
        return
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panel = plt.subplots(figsize=(10, 6))
    colours = plt.get_cmap("turbo")(np.linspace(0.02, 0.95, len(curves)))
    for curve, colour in zip(curves, colours, strict=True):
        means = np.mean([run["accuracy"] for run in curve.runs.values()], axis=0)
        label = curve.title.replace("`", "")
        panel.plot(range(1, len(means) + 1), means, curve.style, color=colour, label=label)
    panel.set_xlabel(unit)
    panel.xaxis.get_major_locator().set_params(integer=True)
    panel.set_ylabel("accuracy on all classes so far, %")
    panel.set_ylim(0, 100)
    panel.grid(visible=True, alpha=0.3)
    panel.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
