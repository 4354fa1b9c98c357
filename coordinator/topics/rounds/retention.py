"""What is deleted of rounds, and when; the entries that name it stay.

- Answers go when their round is done, and late ones at once, unless they are to be kept.
- What older rounds gave goes when the next one opens: all but that of the newest `keep_weights`
  rounds, whichever network they trained. What a model is made of stays, and so do the old models
  that devices are given, and what a round began with until its last phase is over.
"""

from __future__ import annotations

from fleetledger.coordinator.core.decision import Decision, ask, record
from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.requests import PruneBlobs
from fleetledger.coordinator.core.rules import RoundRules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.rounds.entries import AnswersPruned, WeightsPruned
from fleetledger.coordinator.topics.rounds.state import Round, Weights
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.values import Digest


class Retention:
    """Decides what is deleted."""

    def __init__(self, rules: RoundRules, state: State) -> None:
        self._rules = rules
        self._state = state

    def done(self, current: Round) -> Decision:
        """Keep no answers of a round that is done."""
        answers = (*current.answers.values(), *current.left_out)
        deleted = self._answers(*(item.payload for item in answers))
        if not deleted.requests:
            return deleted
        began = tuple(sorted({item.began for item in answers} - {current.opened.number}))
        return record(AnswersPruned(number=current.opened.number, began=began)) + deleted

    def came_late(self, answer: Contribution) -> Decision:
        """Keep no weights that came after their round was closed.

        The entry that says so is that of the round, or one of their own where none was needed.
        """
        assert answer.round is not None
        current = self._state.rounds.by_number.get(answer.round.number)
        newest = self._state.rounds.current
        if current is None or newest is None:
            return Decision()
        counted = (*current.answers.values(), *newest.answers.values())
        if answer.payload in {item.payload for item in counted}:
            return Decision()
        deleted = self._answers(answer.payload)
        if not deleted.requests or current.answers:
            return deleted
        return record(AnswersPruned(number=answer.round.number)) + deleted

    def older_weights(self, begun: Weights | None = None) -> Decision:
        """Keep what the newest rounds gave, and what something else needs.

        `begun` is what the round began with of which a later phase opens.
        """
        keep = self._rules.keep_weights
        made = (*self._state.rounds.former_made.values(), *self._state.rounds.made.values())
        if keep == "all" or len(made) <= keep:
            return Decision()
        needed = {digest for item in made[-keep:] for digest in item.blobs}
        needed |= needed_blobs(self._state) | self._state.rounds.pruned
        if begun is not None:
            needed |= begun.blobs
        over = {item.number: set(item.blobs) - needed for item in made[:-keep]}
        digests = tuple(sorted({digest for found in over.values() for digest in found}))
        if not digests:
            return Decision()
        numbers = tuple(number for number, found in over.items() if found)
        pruned = WeightsPruned(numbers=numbers, digests=digests, kept_rounds=keep)
        return record(pruned) + ask(PruneBlobs(digests))

    def _answers(self, *payloads: Digest) -> Decision:
        """Delete payloads, but none whose bytes something else needs."""
        if self._rules.retention == "all":
            return Decision()
        waiting = self._state.rounds.waiting.values()
        needed = needed_blobs(self._state) | {item.payload for item in waiting}
        over = tuple(payload for payload in payloads if payload not in needed)
        return ask(PruneBlobs(over)) if over else Decision()


def needed_blobs(state: State) -> frozenset[Digest]:
    """Return what devices are offered, and what models are made of."""
    bodies: list[EntryBody | None] = [state.lineages.current]
    for model in state.models.by_version.values():
        bodies += [model.lineage, model.made, model.exported]
    needed = {digest for body in bodies if body is not None for digest in body.blobs}
    if state.rounds.weights is not None:
        needed |= state.rounds.weights.blobs
        needed |= {offer.digest for offer in state.proxy.offers.values()}
    for opened in state.rounds.begun():
        needed |= {opened.weights.digest, *(offer.digest for offer in opened.extras.values())}
    return frozenset(needed)
