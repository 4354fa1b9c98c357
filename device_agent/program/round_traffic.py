"""Bytes of each round on this device, by the transport's meter.

A round's bytes are all that crossed from the order that asked for it to the next assignment: its
weights down, its answer up, and what else was said meanwhile.
"""

from __future__ import annotations

from fleetledger.device_agent.core.state import AgentState
from fleetledger.transport.meter import Counts

KEPT = 10
"""Newest rounds that are remembered; since the start of the program only."""


class RoundTraffic:
    """Counts by round."""

    def __init__(self) -> None:
        self._rounds: dict[int, Counts] = {}
        self._current: int | None = None
        self._before = Counts()

    def turn_to(self, number: int | None, total: Counts) -> None:
        """Charge what was carried since the last turn, and begin with a round, or with none."""
        if number == self._current:
            return
        self._rounds = self.by_round(total)
        self._current, self._before = number, total

    def by_round(self, total: Counts) -> dict[int, Counts]:
        """Return the counts of the newest rounds, oldest first; `total` is since the start."""
        rounds = dict(self._rounds)
        if self._current is not None:
            earlier = rounds.pop(self._current, Counts())
            rounds[self._current] = earlier + (total - self._before)
        return dict(list(rounds.items())[-KEPT:])


def asked_round(state: AgentState) -> int | None:
    """Return the round that the newest assignment asks for."""
    assignment = state.records.assignment
    if assignment is None or assignment.round is None:
        return None
    return assignment.round.number
