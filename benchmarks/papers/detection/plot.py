"""The picture of `benchmarks.papers.detection.sequences`: delay against false alarms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

COLOURS = {
    "sequential": "#1b6ca8",
    "sequential, distance": "#7fb3d5",
    "baseline": "#d9822b",
    "fixed-rise": "#8a8a8a",
}
TITLES = {0.5: "half of the images are new", 1.0: "all images are new"}
_LEAST = 0.02
"""Fewer false alarms in 1,000 are drawn here: a logarithm has no 0."""


def draw(report: dict[str, Any], path: Path) -> None:
    """Draw a row of two panels for each data set."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(
        len(report), 2, figsize=(9, 3.4 * len(report)), sharex=True, sharey="row", squeeze=False
    )
    for line, (name, found) in zip(panels, report.items(), strict=True):
        for panel, (share, title) in zip(line, TITLES.items(), strict=True):
            for rule, colour in COLOURS.items():
                _draw_rule(panel, found, rule, share, colour)
            panel.axvline(1, color="black", linewidth=0.6, linestyle=":")
            panel.set_xscale("log")
            panel.set_title(f"{name}: {title}", fontsize=9)
            panel.grid(visible=True, alpha=0.3)
        line[0].set_ylabel(f"images to a report\n(mean, {found['lengths']['changed']} if none)")
    for panel in panels[-1]:
        panel.set_xlabel("false alarms in 1,000 quiet images")
    panels[0][0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_rule(panel: Any, found: dict[str, Any], rule: str, share: float, colour: str) -> None:  # noqa: ANN401 - of matplotlib
    rows = [row for row in found["rows"] if (row["rule"], row["share"]) == (rule, share)]
    across = [max(row["false_alarms_per_1000"], _LEAST) for row in rows]
    panel.plot(across, [row["mean_delay"] for row in rows], "o-", label=rule, color=colour, ms=4)
    for x, row in zip(across, rows, strict=True):
        panel.annotate(
            f"{row['setting']:g}", (x, row["mean_delay"]), fontsize=6, xytext=(3, 3),
            textcoords="offset points",
        )  # fmt: skip
