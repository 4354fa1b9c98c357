"""Opening rounds: when the phase that is due begins, with which weights, and who carries it out."""

from __future__ import annotations

import hashlib

from fleetledger.coordinator.core.decision import Decision, record, together
from fleetledger.coordinator.core.rules import RoundRules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.proxy.rules import Proxy
from fleetledger.coordinator.topics.proxy.state import NEW_MODEL, OLD_MODEL
from fleetledger.coordinator.topics.rounds.buffers import buffering_of
from fleetledger.coordinator.topics.rounds.cohorts import Cohorts
from fleetledger.coordinator.topics.rounds.entries import Buffering, RoundOpened
from fleetledger.coordinator.topics.rounds.kinds import in_parts
from fleetledger.coordinator.topics.rounds.phases import Due
from fleetledger.coordinator.topics.rounds.retention import Retention
from fleetledger.coordinator.topics.rounds.state import Weights
from fleetledger.coordinator.topics.rounds.void import VoidRounds
from fleetledger.methods.registry import descriptor
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.values import ClassName


class RoundOpening:
    """Decides when a round opens."""

    def __init__(self, rules: RoundRules, state: State, cohorts: Cohorts, proxy: Proxy) -> None:
        self._rules = rules
        self._state = state
        self._proxy = proxy
        self._cohorts = cohorts
        self._void = VoidRounds(rules, state, cohorts)
        self._retention = Retention(rules, state)

    def due(self, stage: int, due: Due, now_ns: int) -> Decision:
        """Open the round of the phase that is due, when nothing has to be waited for."""
        void = self._void.due(stage, now_ns)
        if void is not None:
            return void
        # The cohort of a later phase is known, so nobody has to come back first.
        if due.follows is None and self._cohorts.gathers(now_ns):
            return Decision()
        until = self._proxy.waits_until()
        if until is None:
            return self._open(stage, due, now_ns)
        return Decision() if now_ns < until else self._proxy.missed()

    def _open(self, stage: int, due: Due, now_ns: int) -> Decision:
        state = self._state
        number, buffering = state.rounds.last_number + 1, self._buffering(due)
        if buffering is None:
            cohort, observers = self._cohorts.draw(due, number)
        else:
            cohort, observers = self._cohorts.free(number, now_ns), ()
        goes_on = buffering and (state.rounds.standing or state.rounds.waiting)
        if not (cohort or goes_on) or state.rounds.weights is None:
            return Decision()
        if due.begins_round and len(cohort) < state.lineages.trained.least_answers:
            return Decision()
        rows, names = self._rows(due, state.rounds.weights)
        network = state.lineages.trained
        opened = RoundOpened(
            number=number,
            phase=due.phase,
            follows=None if due.follows is None else due.follows.opened.number,
            stage=stage,
            round_of_stage=due.place,
            rounds_of_stage=due.phases,
            cohort=cohort,
            observers=observers,
            weights=state.rounds.weights.offer,
            weights_class_names=rows,
            class_names=names,
            aliases=state.classes.other_names(names),
            extras=self._extras(state.rounds.weights),
            seed=_seed(self._rules.seed, number),
            deadline_seconds=self._rules.deadline_seconds,
            buffering=buffering,
            robust=self._rules.robust if descriptor(network.method).averages else None,
        )
        begun = None if due.follows is None else state.rounds.first_of(due.follows).weights
        first, rest = in_parts(opened)
        opening = together(record(body) for body in (first, *rest))
        return opening + self._retention.older_weights(begun)

    def _buffering(self, due: Due) -> Buffering | None:
        """Return how answers count, where the stage's rounds are asynchronous."""
        network, rules = self._state.lineages.trained, self._rules.asynchronous
        if rules is None or not due.begins_round or not descriptor(network.method).asynchronous:
            return None
        return buffering_of(rules)

    def _rows(
        self, due: Due, weights: Weights
    ) -> tuple[tuple[ClassName, ...], tuple[ClassName, ...]]:
        """Return the rows of the weights' head, and of the one that is trained.

        A class that is renamed in the middle of a round keeps its name until the round is over.
        """
        if due.follows is not None:
            return weights.class_names, due.follows.opened.class_names
        classes = self._state.classes
        return tuple(map(classes.resolve, weights.class_names)), classes.names

    def _extras(self, weights: Weights) -> dict[str, Offer]:
        """Return what devices get beside the weights; old models are those of the proxy, if any."""
        extras = dict(weights.extras)
        if self._state.lineages.with_proxy is not None:
            # The mean passes on what it was given, and the proxy may have chosen anew since.
            extras = {n: offer for n, offer in extras.items() if n not in (OLD_MODEL, NEW_MODEL)}
        return extras | self._state.proxy.offers


def _seed(seed: int, number: int) -> int:
    """Return the seed of a round: 63 bits."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{number}".encode()).digest()[:8], "big") >> 1
