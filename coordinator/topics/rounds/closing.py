"""Closing rounds: whether what came is enough, and having it averaged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from fleetledger.coordinator.core.decision import Decision, ask, record
from fleetledger.coordinator.core.live import NANOSECONDS, Live
from fleetledger.coordinator.core.requests import TellOperator
from fleetledger.coordinator.core.rules import RoundRules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.work import AverageRound
from fleetledger.coordinator.topics.contributions.bounds import Bounds
from fleetledger.coordinator.topics.rounds.buffers import Ending, ending_of
from fleetledger.coordinator.topics.rounds.cohorts import Cohorts
from fleetledger.coordinator.topics.rounds.entries import CohortContinued, RoundClosed
from fleetledger.coordinator.topics.rounds.phases import is_opening
from fleetledger.coordinator.topics.rounds.retention import Retention
from fleetledger.coordinator.topics.rounds.state import Round
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import DeviceId

_MOST_ASKED = 10_000
"""Devices that one entry asks further."""


class RoundClosing:
    """Decides when a round closes."""

    def __init__(
        self, rules: RoundRules, state: State, live: Live, cohorts: Cohorts, bounds: Bounds
    ) -> None:
        self._rules = rules
        self._state = state
        self._live = live
        self._cohorts = cohorts
        self._bounds = bounds
        self._retention = Retention(rules, state)

    def due(self, current: Round, now_ns: int) -> Decision:
        """Close the open round when it is due, or have a closed one averaged."""
        if current.closed is not None:
            return self._average(current)
        opened = current.opened
        full = opened.buffering is not None and not current.takes_more
        if full:
            return self._close(current, f"its {count_of(len(current.answers), 'answer')}")
        if opened.stage != self._state.stages.open:
            return self._close(current, f"stage {opened.stage} is closed")
        if any(self._state.cohorts.busy(opened.stage, opened.number)):
            return Decision()  # each of its steps ends, and so do its words in a sum
        if opened.buffering is None and current.heard >= self._awaited(current.cohort):
            return self._close(current, "everybody answered")
        if self._are_too_few(current):
            return self._close(current, "everybody answered who is not too few for a cohort")
        if (now_ns - current.opened_ns) / NANOSECONDS >= opened.deadline_seconds:
            return self._close(current, f"deadline of {opened.deadline_seconds:g} s")
        return Decision() if opened.buffering is None else self._ask_more(current, now_ns)

    def _are_too_few(self, current: Round) -> bool:
        """Whether a masked round has a sum, and too few are left to answer for another one."""
        privacy = self._state.stages.by_number[current.opened.stage].privacy
        if privacy is None or privacy.masks is None or not current.answers:
            return False
        return len(self._awaited(current.cohort - current.heard)) < privacy.masks.least

    def _ask_more(self, current: Round, now_ns: int) -> Decision:
        """Ask further devices in an asynchronous round, or close it where nobody is left."""
        number, standing = current.opened.number, self._state.rounds.standing
        free = self._cohorts.free(number, now_ns)[:_MOST_ASKED]
        if free:
            return record(CohortContinued(number=number, cohort=free))
        if current.heard and not self._awaited(standing):
            return self._close(current, "everybody answered")
        return Decision()

    def _awaited(self, devices: Iterable[DeviceId]) -> frozenset[DeviceId]:
        """Return those of the devices that take part and are led."""
        admitted, keys = self._state.devices.admitted, self._state.keys
        return frozenset(
            device
            for device in devices
            if device in admitted and admitted[device].led and not keys.of(device).revoked
        )

    def _close(self, current: Round, why: str) -> Decision:
        opened = current.opened
        needed = self._needed(current)
        enough, heard = current.answered >= needed, current.heard
        if not enough:
            why = f"{why}, with {current.answered} of {count_of(needed, 'answer')} needed"
        weights = self._bounds.weights(current) if enough else {}
        refused = self._refused(current)
        ending = Ending(tuple(d for d in opened.cohort if d not in heard), (), {})
        if opened.buffering is not None:
            lost = self._state.rounds.standing.keys() - self._awaited(self._state.rounds.standing)
            over = lost.union(*refused.values())
            ending = ending_of(self._state, current, over)
        closed = RoundClosed(
            number=opened.number,
            reason=why,
            counted=tuple(item.index for item in current.answers.values()) if enough else (),
            weights=weights,
            nothing=tuple(sorted(current.nothing)),
            failed=tuple(sorted(current.unable)),
            missing=ending.devices,
            refused=refused,
            staleness=ending.staleness if enough else {},
            left_out=ending.left_out,
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
        if current.opened.buffering is not None:
            return 1
        # Devices without data are no reason to give a round up; nor, where owners are asked for
        # something before the rounds, are those that decline.
        excused = len(current.nothing)
        if is_opening(self._state, current):
            excused += len(current.unable)
        quorum = math.ceil(self._rules.quorum * (len(current.opened.cohort) - excused))
        return max(self._state.lineages.trained.least_answers, quorum)

    def _average(self, current: Round) -> Decision:
        assert current.closed is not None
        self._live.making_model = True
        closed = current.closed
        inputs = tuple(current.answers.values())
        if closed.weights or closed.staleness:
            inputs = tuple(
                replace(
                    item,
                    samples=closed.weights.get(item.index, item.samples),
                    staleness=closed.staleness.get(item.index, 0),
                )
                for item in inputs
            )
        began = {item.began for item in inputs} - {current.opened.number}
        older = tuple(self._state.rounds.by_number[number].opened for number in sorted(began))
        return ask(AverageRound(self._state.lineages.trained, current.opened, inputs, older))


def _said(current: Round, weights: Mapping[int, int]) -> Iterator[str]:
    for device, answer in current.answers.items():
        if answer.index in weights:
            yield (
                f"device {device} answered round {current.opened.number} with "
                f"{count_of(answer.samples, 'sample')}, more than its share; "
                f"they count as {weights[answer.index]} ([bounds] max_round_share)"
            )
