"""Rules of a wrong calendar: the operator says that the one of this machine is right now."""

from __future__ import annotations

from fleetledger.coordinator.core.decision import Decision, ask, record
from fleetledger.coordinator.core.entry import OPERATOR
from fleetledger.coordinator.core.live import NANOSECONDS, Live
from fleetledger.coordinator.core.requests import BeatCoordinator
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.clock.entries import ClockCorrected


class Correcting:
    """Decides by how much the times of entries are wrong."""

    def __init__(self, state: State, live: Live) -> None:
        self._state = state
        self._live = live

    def correct(self, now_ns: int) -> tuple[Decision, str]:
        """Set time by the calendar again, and have devices take it.

        Devices take an earlier time only with a higher number of corrections, which they hear with
        it; also where no entry has a wrong time, because devices may have been told one.
        """
        by_ns = now_ns - self._live.calendar(now_ns)
        corrected = record(ClockCorrected(by_ns=by_ns), actor=OPERATOR)
        said = ask(BeatCoordinator(self._state.size, self._state.clock.corrections + 1))
        where = "back" if by_ns > 0 else "forward"
        seconds = abs(by_ns) / NANOSECONDS
        return (
            corrected + said,
            f"time is set {where} by {seconds:.0f} s, to this machine's calendar",
        )
