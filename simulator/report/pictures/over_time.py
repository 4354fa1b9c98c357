"""Accuracy over the fleet's time: what devices that are slow, or waited for, cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.score import SaidScore, say
from fleetledger.simulator.metrics.seed_metrics import SeedMetrics
from fleetledger.simulator.report.pictures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

_POINTS = 400
"""Moments at which curves of several seeds are averaged."""
_SECONDS_OF_MINUTE = 60.0


def passes_time(results: RunResults) -> bool:
    """Tell whether the fleet's clock moved while rounds were trained and measured."""
    return all(len(np.unique(_curve(seed)[0])) > 1 for seed in results.seeds.values())


def draw_over_time(results: RunResults) -> Figure:
    """Draw the mean over seeds, ± one sample deviation."""
    figure = style.new_figure(height=3.4)
    axes = figure.subplots()
    finish(axes, draw_line(axes, results, style.BLUE, ""), results.score)
    return figure


def draw_line(axes: Axes, results: RunResults, colour: str, label: str) -> list[float]:
    """Draw a run's mean over its seeds, ± one sample deviation; return the values."""
    minutes, values = _over_seeds([_curve(seed) for seed in results.seeds.values()])
    mean = values.mean(axis=0)
    if len(values) > 1:
        deviation = values.std(axis=0, ddof=1)
        axes.fill_between(
            minutes, mean - deviation, mean + deviation, color=colour, alpha=0.16, linewidth=0
        )
    axes.plot(minutes, mean, color=colour, linewidth=1.6, label=label)
    return [float(one) for one in values.ravel()]


def finish(axes: Axes, drawn: Sequence[float], score: SaidScore) -> None:
    """Dress the axes on which these values were drawn."""
    style.dress(axes)
    axes.set_ylabel(say(score, "accuracy on all seen classes, %"))
    axes.set_xlabel("minutes by the fleet's clock")
    style.percent_axis(axes, drawn)


def _curve(seed: SeedMetrics) -> tuple[Floats, Floats]:
    """Return when new weights were measured, in seconds, and their accuracy in percent."""
    seconds, accuracy, before = [], [], 0.0
    for stage in seed.stages:
        for one in stage.rounds:
            if one.fleet_seconds is not None and one.accuracy is not None:
                seconds.append(before + one.fleet_seconds)
                accuracy.append(100 * one.accuracy)
        before += stage.fleet_seconds
    return np.array(seconds), np.array(accuracy)


def _over_seeds(curves: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Return minutes (P,) in which every seed was measured, and accuracy by seed, (S, P).

    Between two measurements a fleet has the weights of the former.
    """
    first = max(seconds[0] for seconds, _ in curves)
    last = max(first, min(seconds[-1] for seconds, _ in curves))
    at = np.linspace(first, last, _POINTS)
    values = [held[np.searchsorted(seconds, at, side="right") - 1] for seconds, held in curves]
    return at / _SECONDS_OF_MINUTE, np.array(values)
