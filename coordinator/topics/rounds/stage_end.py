"""End of a stage's rounds: the network becomes a model, or freezes for its successor.

An adapter becomes a model too, and what is beneath it leads again.
"""

from __future__ import annotations

from fleetledger.coordinator.core.decision import Decision, ask, record
from fleetledger.coordinator.core.live import Live
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.work import FreezeNetwork
from fleetledger.coordinator.topics.lineages.rules import end_adapting
from fleetledger.coordinator.topics.models.entries import ModelSolved
from fleetledger.coordinator.topics.rounds.state import Weights
from fleetledger.coordinator.topics.stages.rules import Stages
from fleetledger.runtime.count_words import count_of

_ELSEWHERE = "these are the first weights, which were trained elsewhere"


class RoundFinishing:
    """Decides what becomes of the network when a stage has no phase left, or is closed."""

    def __init__(self, state: State, live: Live, stages: Stages) -> None:
        self._state = state
        self._live = live
        self._stages = stages

    def due(self) -> Decision:
        """Take what rounds gave before the operator closed their stage."""
        weights = self._state.rounds.weights
        if weights is None or weights.averaged is None or self._is_taken(weights):
            return end_adapting(self._state)
        return self._take(weights) + end_adapting(self._state)

    def finish(self, because: str = "") -> Decision:
        """Take the network as a model and close the stage, or freeze it for its successor.

        `because` says why no further round is asked for, where some are left.
        """
        weights, stage = self._state.rounds.weights, self._state.stages.open
        assert weights is not None
        assert stage is not None
        if self._state.lineages.successor is not None:
            return self._take(weights)
        rounds = self._state.rounds.averaged_in(stage)
        why = (
            f"{count_of(rounds, 'round')}"
            if rounds
            else "first weights that know its classes, without rounds"
        )
        if because:
            why = f"{because}, after {count_of(rounds, 'round')}"
        taken = Decision() if self._is_taken(weights) else self._take(weights)
        return taken + self._stages.finish(why) + end_adapting(self._state)

    def _is_taken(self, weights: Weights) -> bool:
        """Whether a model was made of these weights, or none can be: their head has no row."""
        newest = self._state.models.newest
        if not weights.class_names:
            return True
        if newest is None:
            return False
        network = self._state.lineages.trained
        same = newest.solved.head == weights.offer.digest
        return newest.solved_index > weights.index or (
            same and newest.solved.lineage == network.digest
        )

    def _take(self, weights: Weights) -> Decision:
        network, averaged = self._state.lineages.trained, weights.averaged
        if network.successor is not None:
            assert averaged is not None  # a network that freezes has no first weights of its own
            failed = self._state.models.failed
            if failed is not None and failed.weights_index == weights.index:
                return Decision()  # it would fail again
            self._live.making_model = True
            return ask(FreezeNetwork(network, averaged, weights.index))
        return record(
            ModelSolved(
                version=self._state.models.next_version,
                lineage=network.digest,
                ledger_size=self._state.size,
                contributions=1,
                weights_index=weights.index,
                class_names=weights.class_names,
                aggregate=weights.offer.digest if averaged is None else averaged.aggregate,
                head=weights.offer.digest,
                method=network.method,
                fingerprint={} if averaged is None else averaged.fingerprint,
                seconds=0.0 if averaged is None else averaged.seconds,
                remarks=(_ELSEWHERE,) if averaged is None else averaged.remarks,
                descends=self._state.rounds.descending(self._state.size),
            )
        )
