"""Devices that look for new tasks by themselves: entropy look by look, and what they made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.metrics.novelty_outcomes import Judged, Verdict, judged
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.seed_metrics import SeedMetrics
from fleetledger.simulator.report.pictures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_DRAWN = 16
"""Devices that have a panel; of a larger fleet those with most misses and false alarms."""
_COLUMNS = 2
_BEGINS = "a new task begins on the device"
_MARKS: tuple[tuple[Verdict, str, str, str], ...] = (
    ("at once", "noticed at once", "o", style.GREEN),
    ("late", "noticed late", "s", style.ORANGE),
    ("missed", "missed", "X", style.VERMILION),
    ("false alarm", "false alarm", "^", style.PURPLE),
)


@dataclass(frozen=True)
class _Seen:
    """A look on the axis of rounds, which are counted over all stages."""

    round: int
    judged: Judged


def has_novelty_checks(results: RunResults) -> bool:
    """Tell whether devices of the first seed looked for new tasks."""
    return any(stage.novelty_checks for stage in results.first.stages)


def draw_entropy(results: RunResults) -> Figure:
    """Draw a panel per device of the first seed: mean entropy by round, tasks and transitions."""
    seed = results.first
    traces, last = _traces(seed)
    drawn = _chosen(seed, traces)
    rows = -(-len(drawn) // _COLUMNS)
    figure = style.new_figure(height=1.3 + 1.45 * rows)
    axes = figure.subplots(rows, _COLUMNS, sharex=True, sharey=True, squeeze=False)
    flat = list(axes.flat)
    for panel, device in zip(flat, drawn, strict=False):
        _draw(panel, traces[device])
        style.dress(panel, device)
    for panel in flat[len(drawn) :]:
        panel.set_visible(False)
    for panel in flat[max(0, len(drawn) - _COLUMNS) : len(drawn)]:
        panel.tick_params(labelbottom=True)
        panel.set_xlabel("round, counted over all stages")
        style.whole_numbers(panel)
    for panel in axes[:, 0]:
        panel.set_ylabel("entropy, nats")
    flat[0].set_xlim(0.5, last + 0.5)
    highest = max(seen.judged.look.entropy for device in drawn for seen in traces[device])
    flat[0].set_ylim(0, 1.15 * highest or 1)
    _name_marks(flat[0])
    style.legend_below(figure)
    return figure


def _traces(seed: SeedMetrics) -> tuple[dict[DeviceId, list[_Seen]], int]:
    """Return the looks of each device in order, and the last round."""
    traces: dict[DeviceId, list[_Seen]] = {}
    before = 0
    for stage in seed.stages:
        for item in judged(stage):
            traces.setdefault(item.look.device, []).append(_Seen(before + item.look.round, item))
        before += max((look.round for look in stage.novelty_checks), default=len(stage.rounds))
    return traces, max(before, 1)


def _chosen(seed: SeedMetrics, traces: dict[DeviceId, list[_Seen]]) -> Sequence[DeviceId]:
    there = [item for item in seed.noticing if item.device in traces]
    if len(there) > MOST_DRAWN:
        worst = sorted(there, key=lambda item: -(item.missed + item.late + item.false_alarms))
        kept = {item.device for item in worst[:MOST_DRAWN]}
        there = [item for item in there if item.device in kept]
    return [item.device for item in there]


def _draw(axes: Axes, trace: list[_Seen]) -> None:
    """Draw a device; the line breaks where a stage ends, since another head looks at other images.

    A task that begins is a line at the first look of it, a miss stands on that line.
    """
    for stage in dict.fromkeys(seen.judged.stage for seen in trace):
        here = [seen for seen in trace if seen.judged.stage == stage]
        if here[0].judged.begins and stage > 1:
            axes.axvline(here[0].round - 0.5, color=style.INK, linewidth=0.9, linestyle=":")
        axes.plot(
            [seen.round for seen in here],
            [seen.judged.look.entropy for seen in here],
            ".-",
            color=style.BLUE,
            linewidth=1.3,
            markersize=3.5,
        )
    for verdict, _, marker, colour in _MARKS:
        those = [seen for seen in trace if seen.judged.verdict == verdict]
        axes.plot(
            [seen.round for seen in those],
            [seen.judged.look.entropy for seen in those],
            marker,
            color=colour,
            markersize=7,
        )


def _name_marks(axes: Axes) -> None:
    """Name what may be drawn in any panel, whether this one has it or not."""
    axes.plot([], [], ".-", color=style.BLUE, linewidth=1.3, label="mean entropy of current images")
    axes.plot([], [], ":", color=style.MUTED, linewidth=0.9, label=_BEGINS)
    for _, name, marker, colour in _MARKS:
        axes.plot([], [], marker, color=colour, markersize=7, label=name)
