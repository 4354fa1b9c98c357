"""The plot of accuracy by version of the model: over all classes, over old and over new ones."""

from __future__ import annotations

from dataclasses import replace

from fleetledger.coordinator.dashboard.parts.plot import (
    SMALL,
    Drawing,
    Plot,
    PlotFrame,
    PlotLine,
    ValueAxis,
)
from fleetledger.coordinator.reports.version_accuracy import AccuracyByVersion

_MARKED = 20
"""Versions of which each has marks; of more, lines alone are drawn."""
_TICKS = 10
_FRAME = PlotFrame(height=222)
_SMALL = replace(SMALL, height=162)
_WORD = 52
"""Least distance of two words for stages."""


def version_plot(measured: AccuracyByVersion, *, small: bool = False) -> Plot | None:
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
    drawing = Drawing(
        (-0.5, len(shown) - 0.5), ValueAxis.of_percent(lowest), _SMALL if small else _FRAME
    )
    drawing.grid()
    every = -(-len(shown) // _TICKS)
    ticks = range((len(shown) - 1) % every, len(shown), every)
    drawing.below([(at, str(shown[at].version)) for at in ticks], "strong")
    stages = [one.stage for one in shown]
    drawing.below(_stages(drawing, stages), line=1)
    lines = [
        PlotLine(
            [(at, None if share is None else 100 * share) for at, share in enumerate(found)],
            _label(which, found),
            "" if which == "all" else which,
            ("square" if which == "new" else "dot") if len(shown) <= _MARKED else "",
        )
        for which, found in values.items()
    ]
    drawing.lines(lines)
    return drawing.done(measured.change)


def _stages(drawing: Drawing, stages: list[int]) -> list[tuple[float, str]]:
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
