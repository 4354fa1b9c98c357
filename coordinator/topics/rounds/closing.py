"""Closing rounds: whether what came is enough, and having it averaged."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from fleetledger.coordinator.core.decision import Decision, ask, record
from fleetledger.coordinator.core.live import NANOSECONDS, Live
from fleetledger.coordinator.core.requests import TellOperator
from fleetledger.coordinator.core.rules import RoundRules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.work import AverageRound
from fleetledger.coordinator.topics.contributions.bounds import Bounds
from fleetledger.coordinator.topics.rounds.entries import RoundClosed
from fleetledger.coordinator.topics.rounds.phases import is_opening
from fleetledger.coordinator.topics.rounds.retention import Retention
from fleetledger.coordinator.topics.rounds.state import Round, RoundAnswered
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import DeviceId


class RoundClosing:
    """Decides when a round closes."""

    def __init__(self, rules: RoundRules, state: State, live: Live, bounds: Bounds) -> None:
        self._rules = rules
        self._state = state
        self._live = live
        self._bounds = bounds
        self._retention = Retention(rules, state)

    def due(self, current: Round, now_ns: int) -> Decision:
        """Close the open round when it is due, or have a closed one averaged."""
        if current.closed is not None:
            return self._average(current)
        opened = current.opened
        if current.heard >= self._awaited(current):
            return self._close(current, "everybody answered")
        if opened.stage != self._state.stages.open:
            return self._close(current, f"stage {opened.stage} is closed")
        if (now_ns - current.opened_ns) / NANOSECONDS >= opened.deadline_seconds:
            return self._close(current, f"deadline of {opened.deadline_seconds:g} s")
        return Decision()

    def _awaited(self, current: Round) -> frozenset[DeviceId]:
        """Return the devices of a cohort that take part and are led."""
        admitted, keys = self._state.devices.admitted, self._state.keys
        return frozenset(
            device
            for device in current.cohort
            if device in admitted and admitted[device].led and not keys.of(device).revoked
        )

    def _close(self, current: Round, why: str) -> Decision:
        opened = current.opened
        needed = self._needed(current)
        enough, heard = len(current.answers) >= needed, current.heard
        if not enough:
            why = f"{why}, with {len(current.answers)} of {count_of(needed, 'answer')} needed"
        weights = self._bounds.weights(current) if enough else {}
        closed = RoundClosed(
            number=opened.number,
            reason=why,
            counted=tuple(item.index for item in current.answers.values()) if enough else (),
            weights=weights,
            nothing=tuple(sorted(current.nothing)),
            failed=tuple(sorted(current.unable)),
            missing=tuple(device for device in opened.cohort if device not in heard),
            refused=self._refused(current),
        )
        told = ask(*(TellOperator(text) for text in _said(current, weights)))
        return record(closed) + told + (Decision() if enough else self._retention.done(current))

    def _refused(self, current: Round) -> dict[str, tuple[DeviceId, ...]]:
        """Return whose answers were refused, and have no other, by what was said of these."""
        told = self._live.refused.pop(current.opened.number, {})
        by_reason: dict[str, list[DeviceId]] = {}
        for device in sorted(told.keys() - current.heard):
            by_reason.setdefault(told[device], []).append(device)
        return {reason: tuple(devices) for reason, devices in by_reason.items()}

    def _needed(self, current: Round) -> int:
        """Return how many answers are enough."""
        # Devices without data are no reason to give a round up; nor, where owners are asked for
        # something before the rounds, are those that decline.
        excused = len(current.nothing)
        if is_opening(self._state, current):
            excused += len(current.unable)
        return max(1, math.ceil(self._rules.quorum * (len(current.opened.cohort) - excused)))

    def _average(self, current: Round) -> Decision:
        assert current.closed is not None
        self._live.making_model = True
        weights = current.closed.weights
        inputs = tuple(
            RoundAnswered(item.index, item.payload, weights.get(item.index, item.samples))
            for item in current.answers.values()
        )
        return ask(AverageRound(self._state.lineages.trained, current.opened, inputs))


def _said(current: Round, weights: Mapping[int, int]) -> Iterator[str]:
    for device, answer in current.answers.items():
        if answer.index in weights:
            yield (
                f"device {device} answered round {current.opened.number} with "
                f"{count_of(answer.samples, 'sample')}, more than its share; "
                f"they count as {weights[answer.index]} ([bounds] max_round_share)"
            )
