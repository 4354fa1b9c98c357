"""The picture: accuracy after each stage, mean over the seeds, a line for each method."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers.footing.markdown import ranked
from benchmarks.papers.one_table.cases import METHODS

_STYLES = {"statistics": "-", "features": "--", "pictures": ":"}
"""By what a method learns from."""


def draw(results: Mapping[str, Any], path: Path) -> None:
    """Draw the methods that have runs; nothing where none has."""
    found = ranked(results["runs"])
    if not found:
        return
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panel = plt.subplots(figsize=(10, 6))
    colours = plt.get_cmap("turbo")(np.linspace(0.02, 0.95, len(found)))
    for (name, runs), colour in zip(found, colours, strict=True):
        curve = np.mean([run["accuracy"] for run in runs.values()], axis=0)
        method = METHODS[name]
        style = _STYLES[method.sight]
        stages = range(1, len(curve) + 1)
        panel.plot(stages, curve, style, color=colour, label=method.title.replace("`", ""))
    panel.set_xlabel("stage (ten classes each)")
    panel.set_ylabel("accuracy on all classes so far, %")
    panel.set_ylim(0, 100)
    panel.grid(visible=True, alpha=0.3)
    panel.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
