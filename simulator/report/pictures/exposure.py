"""How many devices have run the candidate: group by group, up to the verdict."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.pictures import style
from fleetledger.simulator.rollouts.record import ExposureStep, RolloutRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_UNITS = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
_WORTH = 2.0
"""A unit is taken when the whole time is at least so many of it."""
_ROOM = 1.04
_Points = tuple[list[float], list[int]]


def has_rollout(results: RunResults) -> bool:
    """Tell whether every seed ended with a rollout."""
    return all(seed.rollout is not None for seed in results.seeds.values())


def draw_exposure(results: RunResults) -> Figure:
    """Draw devices that ever ran, and that run, the candidate; each seed a line, the first bold."""
    records = [seed.rollout for seed in results.seeds.values() if seed.rollout is not None]
    end = max(_ends(record) for record in records)
    scale, unit = next(item for item in _UNITS if end >= _WORTH * item[0] or item[0] == 1)
    figure = style.new_figure()
    axes = figure.add_subplot()
    for number, record in enumerate(records):
        first, until = number == 0, _ROOM * end
        label = "have run the candidate" if first else ""
        _steps(axes, _points(record, "ever", until, scale), style.VERMILION, label, bold=first)
        if first:
            now = _points(record, "running", until, scale)
            _steps(axes, now, style.BLUE, "run it", bold=False)
    _mark_groups(axes, records[0], scale)
    style.dress(axes)
    axes.set_xlim(0, max(_ROOM * end / scale, 1e-9))
    axes.set_ylim(0, 1.12 * max(records[0].members, 1))
    axes.set_xlabel(f"{unit} of the fleet's clock since the rollout was planned")
    axes.set_ylabel("devices")
    style.legend_below(figure)
    return figure


def _ends(record: RolloutRecord) -> float:
    times = chain(
        (step.seconds for step in record.exposure),
        (phase.decided_seconds or phase.opened_seconds for phase in record.phases),
        (record.seconds,),
    )
    return max(*times, 1.0)


def _points(record: RolloutRecord, name: str, until: float, scale: float) -> _Points:
    """Return times, in units of `scale` seconds, and devices from then on, up to `until`."""
    steps: list[ExposureStep] = list(record.exposure)
    times = [step.seconds / scale for step in steps] + [until / scale]
    devices = [int(getattr(step, name)) for step in steps]
    return times, [*devices, devices[-1]]


def _steps(axes: Axes, points: _Points, colour: str, label: str, *, bold: bool) -> None:
    width, alpha = (2.2, 1.0) if bold else (1.2, 0.75)
    axes.step(
        *points, where="post", color=colour, linewidth=width, alpha=alpha, label=label or None
    )


def _mark_groups(axes: Axes, record: RolloutRecord, scale: float) -> None:
    """Draw what each group allows from its opening on, and each verdict."""
    colours = {"pass": style.GREEN, "fail": style.VERMILION, "inconclusive": style.MUTED}
    for phase in record.phases:
        at = phase.opened_seconds / scale
        if phase.mode == "run":
            axes.axhline(phase.devices, color="0.8", linewidth=0.8, linestyle="--", zorder=0)
        axes.annotate(
            f"{phase.group}{' shadow' if phase.mode == 'shadow' else ''}",
            (at, 1.01),
            xycoords=("data", "axes fraction"),
            rotation=55,
            fontsize=8,
            color=style.MUTED,
        )
        axes.axvline(at, color="0.88", linewidth=0.8, zorder=0)
        if phase.decided_seconds is not None and phase.outcome is not None:
            axes.plot(
                [phase.decided_seconds / scale],
                [0],
                marker="^" if phase.outcome == "pass" else "X",
                color=colours[phase.outcome],
                markersize=7,
                clip_on=False,
            )
