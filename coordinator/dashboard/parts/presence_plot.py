"""Who was there over the last day: a strip for a device, a line for the fleet, and words."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from fleetledger.coordinator.dashboard.parts import plot
from fleetledger.coordinator.reports.presence import FleetPresence, PresenceSpan
from fleetledger.runtime.strict import Strict
from fleetledger.runtime.times import IsoTime
from fleetledger.transport.pages.words import clock, long, percent, plural, time_ticks

_STRIP = plot.PlotFrame(width=372, height=52, left=1, right=371, top=2, bottom=28)
_LOW = 0.2
"""Height of the strip where a device was away, of that where it was there."""
_TIMES = {1: "once", 2: "twice"}
_HOUR_NS = 3600 * 10**9
_FEW = 20
"""Up to so many devices the plot of the fleet begins at none."""


class Happened(Strict):
    """An entry, or what the coordinator saw, in a sentence."""

    index: int | None = None
    """Of the entry; None of what is not in the ledger."""
    time: IsoTime
    sentence: str


def presence_strip(spans: Sequence[PresenceSpan]) -> plot.Plot | None:
    """Return the strip of a device; None where nothing is remembered."""
    if not spans:
        return None
    drawing = plot.Drawing((spans[0].first_ns, spans[-1].last_ns), plot.ValueAxis(0, 1, 1), _STRIP)
    drawing.level(0, "axis")
    for state, height, look in (("here", 1.0, "column"), ("away", _LOW, "bad")):
        drawing.bars(
            (
                (one.first_ns, one.last_ns, height, f"{state} from {_from_to(one)}")
                for one in spans
                if one.state == state
            ),
            look,
        )
    ticks = time_ticks(spans[0].first_ns, spans[-1].last_ns)
    drawing.below([(at, text) for at, text in ticks if 20 < drawing.x(at) < 350])  # whole words
    return drawing.done(presence_words(spans))


def presence_words(spans: Sequence[PresenceSpan]) -> str:
    """Return how much of what is known a device was there, and how often it was away."""
    here, away = ([one.length_ns for one in spans if one.state == it] for it in ("here", "away"))
    whole = _whole(spans[0].first_ns, spans[-1].last_ns)
    if not here and not away:
        return f"Nobody knows whether it was there in the last {whole}."
    unknown = sum(one.length_ns for one in spans if one.state == "unknown")
    if not here or not away:
        word = "Away" if away else "There"
        said = (
            f"{word} for {long(sum(here + away))} of the last {whole}"
            if unknown
            else (f"{word} all of the last {whole}")
        )
    else:
        share = sum(here) / (sum(here) + sum(away))
        times = _TIMES.get(len(away), f"{len(away):,} times")
        said = f"There for {percent(share)} of the last {whole}, away {times}"
        said += f", for {long(away[0])}" if len(away) == 1 else f", at most for {long(max(away))}"
    return f"{said}; for {long(unknown)} nobody knows." if unknown else f"{said}."


def absences(spans: Sequence[PresenceSpan]) -> list[Happened]:
    """Return a line for each time that a device was away, newest first."""
    found = []
    for place, one in enumerate(spans):
        before = spans[place - 1] if place else None
        after = spans[place + 1] if place + 1 < len(spans) else None
        if one.state != "away" or before is None:
            continue
        left = "Went away" if before.state == "here" else "Was away when somebody could know again"
        if after is None:
            said = f"{left}, and has not come back."
        elif after.state == "here":
            said = f"{left}, and came back after {long(one.length_ns)}."
        else:
            said = f"{left}; after {long(one.length_ns)} nobody could know."
        found.append(Happened(time=one.first_ns, sentence=said))
    return found[::-1]


def fleet_presence_plot(presence: FleetPresence, devices: int) -> plot.Plot | None:
    """Return how many devices were there over the day; None before anything is known."""
    known = presence.known
    if not known:
        return None
    least = 0 if devices <= _FEW else 9 * devices // 10
    axis = plot.ValueAxis.over([*(count for _, count in known), devices, least])
    drawing = plot.Drawing((presence.first_ns, presence.last_ns), axis, plot.SMALL)
    drawing.grid()
    drawing.below(time_ticks(presence.first_ns, presence.last_ns))
    drawing.limit(devices, plural(devices, "device"), "allowed")
    points: list[tuple[float, float | None]] = []
    for count, group in itertools.groupby(enumerate(presence.here), key=lambda item: item[1]):
        slots = [slot for slot, _ in group]
        points += [(presence.begins(slots[0]), count), (presence.begins(slots[-1] + 1), count)]
    drawing.lines([plot.PlotLine(points, f"{known[-1][1]:,} there")])
    return drawing.done(fleet_presence_words(presence, devices))


def fleet_presence_words(presence: FleetPresence, devices: int) -> str:
    """Return when the fewest devices were there."""
    whole = _whole(presence.first_ns, presence.last_ns)
    slot, fewest = min(presence.known, key=lambda item: item[1])
    if fewest >= devices:
        said = f"All {devices:,} devices were there over the last {whole}"
        return said.replace("All 1 devices were", "The device was") + "."
    at = clock(presence.begins(slot))[:5]
    return f"Fewest in the last {whole}: {fewest:,} of {plural(devices, 'device')}, at {at}."


def _whole(first_ns: int, last_ns: int) -> str:
    """Return how long is remembered, behind `the last`."""
    return "day" if last_ns - first_ns >= 23 * _HOUR_NS else long(last_ns - first_ns)


def _from_to(span: PresenceSpan) -> str:
    return f"{clock(span.first_ns)} to {clock(span.last_ns)}"
