"""Rounds that come to nothing, one after the other: the pauses between them, and their end.

- After each round that comes to nothing the next one waits, each time twice as long, up to a limit.
  A device that has come since, and was not asked, ends a wait that had grown.
- Where as many as a round needs have spoken, and nothing can be made of what they said, because
  they decline, because their answers are refused or because these cannot be averaged, the round
  counts towards a stop. A round that is short of answers because devices sleep, or have no images,
  does not: it would have been the same without a fault, and the fleet goes on by itself.
- After `void_rounds` that count, the stage asks nothing more. The ledger says who gave what. It
  goes on when the operator says so, with other settings, or when a device comes of which nothing
  was refused; the pauses are as long as they were then, so that nobody who comes and goes has the
  fleet work for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fleetledger.coordinator.core.decision import Decision, record
from fleetledger.coordinator.core.entry import OPERATOR
from fleetledger.coordinator.core.live import NANOSECONDS
from fleetledger.coordinator.core.phrases import some
from fleetledger.coordinator.core.rules import RoundRules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.topics.rounds.cohorts import Cohorts
from fleetledger.coordinator.topics.rounds.entries import RoundsResumed, RoundsStopped
from fleetledger.coordinator.topics.rounds.state import Round, Stopped, VoidRun
from fleetledger.schemas.values import DeviceId, Digest

_NAMED = 5
_REASONS = 3
_MAX_DOUBLINGS = 60
"""Beyond which no pause grows: far above every limit, and still a number."""


def pause_seconds(rules: RoundRules, void: VoidRun) -> float:
    """Return the pause before the next round, after so many that came to nothing."""
    doubled = rules.pause_seconds * 2.0 ** min(max(0, len(void.rounds) - 1), _MAX_DOUBLINGS)
    return min(doubled, max(rules.pause_seconds, rules.longest_pause_seconds))


def resume(state: State) -> tuple[Decision, str]:
    """Try the rounds of a stage again; raise `CommandError` where they have not stopped."""
    stopped = state.rounds.void.stopped
    if stopped is None:
        raise CommandError("rounds: they have not stopped; `fleetledger coordinator rounds`")
    resumed = RoundsResumed(stage=stopped.stage, reason=OPERATOR, anew=True)
    return record(resumed, actor=OPERATOR), "the next round opens"


class VoidRounds:
    """Decides whether the next round has to wait, and whether a stage tries it again at all."""

    def __init__(self, rules: RoundRules, state: State, cohorts: Cohorts) -> None:
        self._rules = rules
        self._state = state
        self._cohorts = cohorts
        self._counting: dict[int, bool] = {}
        """By number of a round that is done."""
        self._settings = Digest.of(rules.model_dump_json(exclude_defaults=True).encode())

    def due(self, stage: int, now_ns: int) -> Decision | None:
        """Stop, go on or wait; None where nothing keeps the next round from opening."""
        void = self._state.rounds.void
        if void.stopped is not None:
            return self._go_on(void.stopped)
        if not void.rounds:
            return None
        counting = [item for item in void.rounds[void.weighed :] if self._counts(item)]
        if len(counting) >= self._rules.void_rounds:
            return self._stop(stage, counting)
        return Decision() if self._pauses(void, now_ns) else None

    def _pauses(self, void: VoidRun, now_ns: int) -> bool:
        """Whether the newest round of the stage came to nothing a moment ago."""
        current = self._state.rounds.current
        if current is not void.rounds[-1]:
            return False
        assert current.ended_ns is not None  # it is done
        assert current.ended_index is not None
        passed = (now_ns - current.ended_ns) / NANOSECONDS
        if passed < self._rules.pause_seconds:
            return True
        if passed >= pause_seconds(self._rules, void):
            return False
        return not self._cohorts.has_come(current.ended_index, but=current.cohort)

    def _counts(self, item: Round) -> bool:
        """Whether as many spoke as the round needed, and nothing could be made of it."""
        number = item.opened.number
        if number not in self._counting:  # which is asked several times a second
            refused, asked = item.refused, len(item.opened.cohort) - len(item.nothing)
            spoke = len(item.answers.keys() | refused.keys())
            enough = spoke >= max(1, math.ceil(self._rules.quorum * asked))
            self._counting[number] = bool(refused) and enough
        return self._counting[number]

    def _stop(self, stage: int, counting: Sequence[Round]) -> Decision:
        return record(
            RoundsStopped(
                stage=stage,
                numbers=tuple(item.opened.number for item in counting),
                reason=_sentence(stage, counting),
                settings=self._settings,
            )
        )

    def _go_on(self, stopped: Stopped) -> Decision:
        if stopped.settings != self._settings:
            reason = "the settings of rounds are other ones"
            return record(RoundsResumed(stage=stopped.stage, reason=reason, anew=True))
        void = self._state.rounds.void
        refused = frozenset(device for item in void.rounds for device in item.refused)
        come = self._cohorts.has_come(stopped.index, but=refused)
        if not come:
            return Decision()
        reason = f"{some(come, _NAMED)} came, of whom nothing was refused"
        return record(RoundsResumed(stage=stopped.stage, reason=reason))


def _sentence(stage: int, counting: Sequence[Round]) -> str:
    """Say what was refused in the newest of some rounds, by whom, and what to do."""
    newest, phase = counting[-1], counting[-1].opened.phase
    numbers = f"{counting[0].opened.number} to {newest.opened.number}"
    by_reason: dict[str, list[DeviceId]] = {}
    for device, reason in sorted(newest.refused.items()):
        by_reason.setdefault(reason, []).append(device)
    told = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    said = "; ".join(f"{some(devices, _NAMED)}: {reason}" for reason, devices in told[:_REASONS])
    return (
        f"stage {stage} asks nothing more: of rounds {numbers}, {len(counting)} came to nothing in "
        f"phase {phase!r} by what {some(sorted(newest.refused), _NAMED)} said or gave. {said}. "
        "Mend it and give `fleetledger coordinator resume-rounds`, or close the stage"
    )
