"""Rounds: a cohort trains from the fleet's weights, and the mean of its answers follows them.

The rules, for as long as a stage of a network is open:

- A stage has one or several phases (`coordinator.topics.rounds.phases`); each is a round of its
  own here, with a cohort and a mean.
- The cohort is drawn from the devices that are connected and able: the order is a hash of seed,
  round and device, so that it does not depend on who was admitted first. A later phase of a round
  asks those whose answers counted in the phase before it, and waits for who is away.
- Where the network's method wants it, the others of these look at their images with the fleet's
  weights, and say what they saw. No round waits for them.
- After a start of the coordinator it waits a while for able devices that are not back yet.
- A round closes when everybody in it has answered, at its deadline, or with its stage. Answers that
  come later are recorded, and left out of that round for good.
- With fewer answers than the quorum, a round comes to nothing: the fleet's weights are those that
  it began with, and after a pause the next round begins. It does not count.
- Asynchronous rounds wait for nobody: see `coordinator.topics.rounds.buffers`.
- Where the network's method has a proxy, the next round waits for what it chooses; see
  `coordinator.topics.proxy.rules`.
- What is deleted of weights, `coordinator.topics.rounds.retention` says.
- After the last round of a stage the network is taken as a model and the stage closes; where a
  successor is set, the network is frozen instead, and the stage goes on with statistics. The same
  comes of what was averaged when the operator closes a stage before its last round.
"""

from __future__ import annotations

from fleetledger.coordinator.core.decision import Decision, record
from fleetledger.coordinator.core.live import Live
from fleetledger.coordinator.core.rules import Rules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.contributions.bounds import Bounds
from fleetledger.coordinator.topics.lineages.entries import Lineage
from fleetledger.coordinator.topics.proxy.rules import Proxy
from fleetledger.coordinator.topics.rounds.closing import RoundClosing
from fleetledger.coordinator.topics.rounds.cohorts import Cohorts
from fleetledger.coordinator.topics.rounds.entries import RoundFailed, WeightsAveraged
from fleetledger.coordinator.topics.rounds.opening import RoundOpening
from fleetledger.coordinator.topics.rounds.phases import due_phase
from fleetledger.coordinator.topics.rounds.retention import Retention
from fleetledger.coordinator.topics.rounds.stage_end import RoundFinishing
from fleetledger.coordinator.topics.stages.rules import CanLearn, Stages


class TrainingRounds:
    """Decides what comes next in the rounds of a network, and about what workers made of them."""

    def __init__(
        self, rules: Rules, state: State, live: Live, stages: Stages, can_learn: CanLearn
    ) -> None:
        self._rules = rules.rounds
        self._state = state
        self._live = live
        self.proxy = Proxy(rules.rounds, state, live)
        self.retention = Retention(rules.rounds, state)
        self._cohorts = cohorts = Cohorts(rules.rounds, state, live, can_learn)
        bounds = Bounds(rules.bounds, state)
        self._opening = RoundOpening(rules.rounds, state, cohorts, self.proxy)
        self._closing = RoundClosing(rules.rounds, state, live, cohorts, bounds)
        self._finishing = RoundFinishing(state, live, stages)

    def due(self, now_ns: int) -> Decision:
        """Close the open round, have a closed one averaged, or go on to what follows."""
        if self._live.since_ns is None:
            self._live.since_ns = now_ns
        if not self._state.lineages.in_rounds or self._live.making_model:
            return Decision()
        current = self._state.rounds.current
        if current is not None and not current.done:
            return self._closing.due(current, now_ns)
        stage = self._state.stages.open
        if stage is None:
            return self._finishing.due()
        due = due_phase(self._state, self._rules, stage)
        if due is None:
            return self._finishing.finish()
        if due.begins_round and self._cohorts.have_spent():
            return self._finishing.finish("every device has spent its budget of privacy")
        return self._opening.due(stage, due, now_ns)

    def averaged(self, body: WeightsAveraged) -> Decision:
        """Record the fleet's new weights, unless another lineage leads by now."""
        self._live.making_model = False
        current = self._state.rounds.by_number.get(body.number)
        if body.lineage != self._lineage_digest() or current is None or current.done:
            return Decision()
        return record(body) + self.retention.done(current)

    def not_averaged(self, number: int, reason: str) -> Decision:
        """Record that a round came to nothing, so that the same answers are not tried again."""
        self._live.making_model = False
        current = self._state.rounds.by_number.get(number)
        if current is None or current.done:
            return Decision()
        failed = RoundFailed(number=number, reason=reason[:2000])
        return record(failed) + self.retention.done(current)

    def frozen(self, backbone: Lineage) -> Decision:
        """Let the frozen network lead; the stage that is open goes on with statistics."""
        self._live.making_model = False
        return record(backbone) if self._state.lineages.in_rounds else Decision()

    def _lineage_digest(self) -> str | None:
        return None if self._state.lineages.current is None else self._state.lineages.current.digest
