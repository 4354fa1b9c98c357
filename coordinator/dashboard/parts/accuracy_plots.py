"""Plots of accuracy by stage and by version: over all classes, over old and over new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fleetledger.coordinator.dashboard.parts import plot
from fleetledger.coordinator.reports.stage_accuracy import AccuracySpread, StageAccuracy
from fleetledger.coordinator.reports.version_accuracy import AccuracyByVersion

_APART = 0.03
"""Between the marks of old and new classes of a stage, of the plot's width."""
_FRAME = plot.PlotFrame(height=222)


def stage_plot(stages: Sequence[StageAccuracy], most: int = 12) -> plot.Plot | None:
    """Return the plot of the newest stages that were measured; None where none was."""
    shown = [item for item in stages if item.version is not None][-most:]
    spreads = [spread for item in shown for spread in (item.old, item.new) if spread is not None]
    if not spreads:
        return None
    axis = plot.ValueAxis.of_percent(min(min(one.low, one.right.share) for one in spreads))
    drawing = plot.Drawing((-0.5, len(shown) - 0.5), axis, _FRAME)
    drawing.grid()
    drawing.below([(at, f"stage {item.stage}") for at, item in enumerate(shown)], "strong")
    drawing.below([(at, f"model {item.version}") for at, item in enumerate(shown)], line=1)
    half = _APART * len(shown) / 2
    aside = {at: half if item.old and item.new else 0 for at, item in enumerate(shown)}
    old = [(at - aside[at], item.old) for at, item in enumerate(shown) if item.old]
    new = [(at + aside[at], item.new) for at, item in enumerate(shown) if item.new]
    told = (("old", "dot", old), ("new", "square", new))
    for which, _, marks in told:
        drawing.paths += [_spread(drawing, at, spread, which) for at, spread in marks]
    drawing.lines([_line(which, mark, marks) for which, mark, marks in told if marks])
    return drawing.done("Per cent right by stage; the table below says the same")


def _spread(drawing: plot.Drawing, at: float, spread: AccuracySpread, which: str) -> plot.PlotPath:
    high, low = drawing.y(100 * spread.high), drawing.y(100 * spread.low)
    return plot.PlotPath(f"M{drawing.x(at)} {high}V{low}", f"spread {which}")


def _line(which: str, mark: str, marks: Sequence[tuple[float, AccuracySpread]]) -> plot.PlotLine:
    return plot.PlotLine(
        [(at, 100 * spread.right.share) for at, spread in marks],
        f"{which} {100 * marks[-1][1].right.share:.1f}",
        which,
        mark,
    )


_MARKED = 20
"""Versions of which each has marks; of more, lines alone are drawn."""
_TICKS = 10
_SMALL = replace(plot.SMALL, height=162)
_WORD = 52
"""Least distance of two words for stages."""


def version_plot(measured: AccuracyByVersion, *, small: bool = False) -> plot.Plot | None:
    """Return the plot; None where nothing was measured. With one kind of class, one line."""
    shown = [one for one in measured.versions if one.all is not None]
    if not shown:
        return None
    values = {which: [getattr(one, which) for one in shown] for which in ("all", "old", "new")}
    if not any(old is not None for old in values["old"]) or not any(
        new is not None for new in values["new"]
    ):
        values = {"all": values["all"]}
    lowest = min(value for found in values.values() for value in found if value is not None)
    drawing = plot.Drawing(
        (-0.5, len(shown) - 0.5), plot.ValueAxis.of_percent(lowest), _SMALL if small else _FRAME
    )
    drawing.grid()
    every = -(-len(shown) // _TICKS)
    ticks = range((len(shown) - 1) % every, len(shown), every)
    drawing.below([(at, str(shown[at].version)) for at in ticks], "strong")
    stages = [one.stage for one in shown]
    drawing.below(_stages(drawing, stages), line=1)
    lines = [
        plot.PlotLine(
            [(at, None if share is None else 100 * share) for at, share in enumerate(found)],
            _label(which, found),
            "" if which == "all" else which,
            ("square" if which == "new" else "dot") if len(shown) <= _MARKED else "",
        )
        for which, found in values.items()
    ]
    drawing.lines(lines)
    return drawing.done(measured.change)


def _stages(drawing: plot.Drawing, stages: list[int]) -> list[tuple[float, str]]:
    """Return a word where each stage begins, as far as there is room."""
    found: list[tuple[float, str]] = []
    for at, stage in enumerate(stages):
        begins = stage and (at == 0 or stages[at - 1] != stage)
        if begins and (not found or drawing.x(at) - drawing.x(found[-1][0]) >= _WORD):
            found.append((at, f"stage {stage}"))
    return found


def _label(which: str, shares: list[float | None]) -> str:
    newest = next((share for share in reversed(shares) if share is not None), None)
    return "" if newest is None else f"{which} {100 * newest:.1f}"
