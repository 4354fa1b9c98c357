"""Methods that learn in rounds: accuracy and client drift, round after round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.records import RoundRecord
from fleetledger.simulator.report.curves import Floats
from fleetledger.simulator.report.pictures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANELS: tuple[tuple[str, str, str, Callable[[RoundRecord], float | None]], ...] = (
    (
        "accuracy on\nall seen classes, %",
        style.BLUE,
        "accuracy",
        lambda item: None if item.accuracy is None else 100 * item.accuracy,
    ),
    ("client drift,\nshare of the model", style.VERMILION, "drift", lambda item: item.client_drift),
    ("loss", "#332288", "loss", lambda item: item.loss),
)


@dataclass(frozen=True)
class _Series:
    """One stage: numbers of its rounds over all stages, (R,), and values, (S, R), NaN unknown."""

    rounds: NDArray[np.int64]
    values: Floats


def has_rounds(results: RunResults) -> bool:
    """Tell whether any number was measured in any round."""
    return any(_series(results, take) for *_, take in _PANELS)


def draw_rounds(results: RunResults) -> Figure:
    """Draw a panel for each number that was measured: the mean over seeds, and stages as bands."""
    panels = [(label, colour, _series(results, take)) for label, colour, _, take in _PANELS]
    held = [panel for panel in panels if panel[2]]
    figure = style.new_figure(height=1.2 + 1.9 * len(held))
    all_axes = list(figure.subplots(len(held), 1, sharex=True, squeeze=False)[:, 0])
    for axes, (label, colour, series) in zip(all_axes, held, strict=True):
        _draw(axes, series, colour)
        style.dress(axes)
        axes.set_ylabel(results.say(label))
    _mark_stages(all_axes, results)
    style.whole_numbers(all_axes[-1])
    all_axes[-1].set_xlabel("round, counted over all stages")
    return figure


def _series(results: RunResults, take: Callable[[RoundRecord], float | None]) -> list[_Series]:
    """Return the values of every stage in which any was measured, in order."""
    found = []
    before = 0
    for position, stage in enumerate(results.first.stages[: results.stages]):
        stages = [seed.stages[position] for seed in results.seeds.values()]
        common = min(len(item.rounds) for item in stages)
        values = np.array([[take(item.rounds[k]) for k in range(common)] for item in stages], float)
        if np.isfinite(values).any():
            found.append(_Series(before + 1 + np.arange(common), values))
        before += len(stage.rounds)
    return found


def _draw(axes: Axes, series: list[_Series], colour: str) -> None:
    """Draw each stage by itself: the first round of a stage starts from another test set."""
    for item in series:
        mean = item.values.mean(axis=0)
        if len(item.values) > 1:
            deviation = item.values.std(axis=0, ddof=1)
            axes.fill_between(
                item.rounds,
                mean - deviation,
                mean + deviation,
                color=colour,
                alpha=0.16,
                linewidth=0,
            )
        axes.plot(item.rounds, mean, ".-", color=colour, linewidth=1.6, markersize=5)


def _mark_stages(all_axes: list[Axes], results: RunResults) -> None:
    """Draw a line where a stage begins in the first seed, and name it above the first panel."""
    begin = 0.5
    for stage in results.first.stages:
        for axes in all_axes:
            axes.axvline(begin, color="0.85", linewidth=0.8, zorder=0)
        end = begin + len(stage.rounds)
        if len(results.first.stages) <= 20:
            all_axes[0].annotate(
                f"stage {stage.stage}" if stage.stage == 1 else str(stage.stage),
                ((begin + end) / 2, 1.02),
                xycoords=("data", "axes fraction"),
                ha="center",
                fontsize=8.5,
                color=style.MUTED,
            )
        begin = end
    all_axes[0].set_xlim(0.5, max(begin, 1.5))
