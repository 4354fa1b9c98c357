"""The proxy: asked to score what each round gave, waited for a while, and held to what is known.

The rules, for networks whose method has a proxy:

- After each round that gave weights, an order to score them is published for the proxy. A later one
  replaces it; after a start of the coordinator it is published again.
- The next round opens when the proxy has answered, or `proxy_seconds` after the weights, or after
  the coordinator's start, whichever was later. Stages close without waiting.
- An answer names weights that this lineage gave and that are still kept; otherwise it is refused. A
  repeat gets its receipt again, another answer to the same order is refused, and so is one to an
  order before the last that was answered. One that comes when nobody waits for it any more counts
  for the rounds after it.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleetledger.coordinator.core.decision import Decision, ask, record
from fleetledger.coordinator.core.live import NANOSECONDS, Live
from fleetledger.coordinator.core.requests import SendToDevice, TakeBack
from fleetledger.coordinator.core.rules import RoundRules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.devices.rules import note_problem
from fleetledger.coordinator.topics.proxy.entries import OldModelChosen, OldModelMissed
from fleetledger.coordinator.topics.proxy.state import OldModel
from fleetledger.coordinator.topics.rounds.state import AveragedWeights
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.envelope import PROXY, Envelope
from fleetledger.schemas.models import of_pictures
from fleetledger.schemas.presence import Birth, Death, Heartbeat
from fleetledger.schemas.proxy import Scored, ScoringOrder
from fleetledger.schemas.receipts import Accepted, Answer, Receipt, Refused
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.values import Digest


class Proxy:
    """Decides what the proxy is asked, and about its answers."""

    def __init__(self, rules: RoundRules, state: State, live: Live) -> None:
        self._rules = rules
        self._state = state
        self._live = live

    def message(self, envelope: Envelope) -> Decision:
        """Decide about a message on the proxy's topics; raise `SchemaError` for a wrong one."""
        header = envelope.header
        if header.sender != PROXY:
            raise SchemaError(f"sender: {header.sender!r} sent on the topic of the proxy; ignored")
        match header.kind:
            case Birth.kind | Death.kind | Heartbeat.kind:
                return Decision()  # the broker keeps its order, and nothing else depends on it
            case Scored.kind:
                return self.scored(envelope.read(Scored))
            case Problem.kind:
                return note_problem(PROXY, envelope.read(Problem))
            case kind:
                raise SchemaError(
                    f"kind: {kind!r} is not a message of the proxy; see docs/protocol"
                )

    def order(self) -> Decision:
        """Publish the order to score the fleet's newest weights, if a round gave them.

        Where none did, one of an earlier network is taken back.
        """
        state = self._state
        network, weights = state.lineages.with_proxy, state.rounds.weights
        if network is None or weights is None or weights.averaged is None:
            return ask(TakeBack(PROXY, "assignment")) if state.lineages.had_proxy else Decision()
        averaged = weights.averaged
        opened = state.rounds.by_number[averaged.number].opened
        names = tuple(map(state.classes.resolve, averaged.class_names))
        order = ScoringOrder(
            action=weights.index,
            stage=opened.stage,
            round=opened.number,
            round_of_stage=opened.round_of_stage,
            rounds_of_stage=opened.rounds_of_stage,
            method=network.method,
            settings=network.settings,
            lineage=network.digest,
            weights=averaged.weights,
            class_names=names,
            class_stages=state.class_stages(names),
            aliases=state.classes.other_names(names),
            preprocessing=of_pictures(network.preprocessing),
            seed=opened.seed,
        )
        return ask(SendToDevice(PROXY, "assignment", order, retain=True))

    def waits_until(self) -> int | None:
        """Return when the next round opens without an answer; None where none is awaited."""
        unscored = self._state.proxy.unscored
        if unscored is None:
            return None
        assert unscored.averaged_ns is not None  # a round gave them
        since = max(unscored.averaged_ns, self._live.since_ns or 0)
        return since + round(self._rules.proxy_seconds * NANOSECONDS)

    def missed(self) -> Decision:
        """Record that the proxy was waited for in vain."""
        unscored = self._state.proxy.unscored
        assert unscored is not None
        assert unscored.averaged is not None
        return record(
            OldModelMissed(
                number=unscored.averaged.number,
                action=unscored.index,
                seconds=self._rules.proxy_seconds,
            )
        )

    def scored(self, body: Scored) -> Decision:
        """Record the proxy's answer, or say why not."""
        asked = self._asked(body.action)
        if asked is None:
            # Of another ledger, or of weights that are gone: the order that counts is told again.
            return self.order()
        known = self._state.proxy
        if known.chosen is not None and body.action <= known.chosen.answer.action:
            if body == known.chosen.answer:
                return self._receipt(asked, Accepted(ledger_index=known.chosen.index))
            answered = (
                f"action: {known.chosen.answer.action} is answered by entry {known.chosen.index}"
            )
            return self._receipt(asked, Refused(reason=f"{answered}, and that stands"))
        fault = self._fault(body, asked)
        if fault:
            return self._receipt(asked, Refused(reason=fault))
        chosen = OldModelChosen(
            number=asked.number,
            answer=body,
            winner=max(reversed(body.scored), key=lambda model: model.score, default=None),
            previous=self._old_model(body.previous),
            current=self._old_model(body.current),
        )
        accepted = Accepted(ledger_index=self._state.size)
        return record(chosen, actor=PROXY) + self._receipt(asked, accepted)

    def _asked(self, action: int) -> AveragedWeights | None:
        """Return what the proxy was asked to score under an action."""
        if self._state.lineages.with_proxy is None:
            return None
        return next((made for made in self._newest_first() if made.index == action), None)

    def _fault(self, body: Scored, asked: AveragedWeights) -> str:
        """Return what is wrong with an answer, in words; empty where nothing is."""
        if body.newest is not None and body.newest.round != asked.number:
            return (
                f"newest.round: {body.newest.round}, and action {body.action} is of {asked.number}"
            )
        given = body.scored if body.newest is None else (body.newest, *body.scored)
        for model in given:
            made = self._state.rounds.made.get(model.round)
            if made is None or made.offer.digest != model.weights:
                return (
                    f"scored: weights {model.weights.short} are not what round {model.round} of "
                    "this network gave"
                )
        for name, slot in (("previous", body.previous), ("current", body.current)):
            if slot is not None and self._old_model(slot) is None:
                return (
                    f"{name}: weights {slot.short} are not of this network, or are kept no longer; "
                    "choose newer ones, or raise [rounds] keep_weights"
                )
        return ""

    def _old_model(self, digest: Digest | None) -> OldModel | None:
        found = (made for made in self._newest_first() if made.offer.digest == digest)
        made = next(found, None)
        if made is None or digest in self._state.rounds.pruned:
            return None
        return OldModel(round=made.number, weights=made.offer)

    def _newest_first(self) -> Iterator[AveragedWeights]:
        return reversed(self._state.rounds.made.values())

    def _receipt(self, asked: AveragedWeights, answer: Answer) -> Decision:
        opened = self._state.rounds.by_number[asked.number].opened
        key = PartKey(stage=opened.stage, part=opened.number)
        return ask(SendToDevice(PROXY, "rcpt", Receipt(about="scored", key=key, answer=answer)))
