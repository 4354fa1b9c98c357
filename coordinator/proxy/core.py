"""The rules of a proxy, without I/O.

- A letter with gradients is known by stage, round and the digest of its bytes. A repeat gets the
  receipt that was given, or none yet; a device that sends other gradients under the same key while
  the first wait is refused.
- Nothing larger than the limit is fetched, nothing is taken in beyond the room there is, and
  nothing is acknowledged before it is on the disk.
- Gradients are checked when an order of their stage or a later one is here. Then those of a stage
  before the one whose pictures are gathered are refused. Those of another network wait for the next
  order, which may be of theirs, and are refused if it is not.
- The newest order is scored, one at a time, when its weights are here and nothing is being checked;
  gradients that are still on their way are waited for a little.
- What an order came to is told until the coordinator's receipt, and again whenever the same order
  comes again. An order is scored once.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.proxy import inputs
from coordinator.proxy.records import (
    Change,
    Final,
    Letter,
    LetterAnswered,
    LetterKept,
    Name,
    Records,
    apply,
)
from coordinator.proxy.requests import (
    NOTHING,
    Answer,
    Check,
    Decision,
    FetchPayload,
    FetchWeights,
    Request,
    Score,
    Tell,
)
from schemas.proxy import ScoringOrder
from schemas.receipts import Accepted, Later, Receipt, Refused
from schemas.reports import Problem
from schemas.values import DeviceId, Digest

TELL_SECONDS = 10.0
"""Between repeats of a score that the coordinator has not acknowledged."""
GATHER_SECONDS = 10.0
"""How long an order waits for gradients that are being fetched."""
RETRY_SECONDS = 10.0
LATER_SECONDS = 30.0
_REASON = 500


@dataclass(frozen=True)
class Rules:
    """Bounds, in bytes."""

    payload_bytes: int
    waiting_bytes: int


class Core:
    """Decides; `commit` follows what was decided and written."""

    def __init__(self, rules: Rules, records: Records) -> None:
        self._rules = rules
        self._records = records
        self._order: ScoringOrder | None = None
        self._since = 0.0
        self._fetching: dict[Name, Letter] = {}
        self._checking: set[Name] = set()
        self._early: set[Name] = set()
        """Letters of another network that came after the newest order."""
        self._weights: Digest | None = None
        """Of the weights that are here."""
        self._fetch_weights_at: float | None = None
        """When the order's weights are to be fetched; None while they are."""
        self._scoring: int | None = None
        """Action of the order that is being scored."""
        self._failed = False
        self._told = False
        self._tell_at = 0.0

    def commit(self, changes: tuple[Change, ...]) -> None:
        """Follow changes that are on the disk."""
        for change in changes:
            apply(self._records, change)

    def take(self, event: inputs.Input, now: float) -> Decision:
        """Decide about what happened."""
        match event:
            case inputs.Gradients():
                return self._gradients(event)
            case inputs.PayloadFetched(name, data):
                letter = self._fetching.pop(name, None)
                return NOTHING if letter is None else self._kept(letter, data)
            case inputs.PayloadLost(name, reason):
                letter = self._fetching.pop(name, None)
                return NOTHING if letter is None else _later(letter.device, name, reason)
            case inputs.Checked(name, fault):
                self._checking.discard(name)
                return self._answered(name, fault)
            case inputs.Ordered(order):
                self._ordered(order, now)
            case inputs.WeightsFetched(weights):
                self._weights = weights
            case inputs.WeightsLost():
                self._fetch_weights_at = now + RETRY_SECONDS
            case inputs.Scored(change):
                self._scoring, self._told, self._tell_at = None, False, now
                return Decision((change,))
            case inputs.OrderFailed(action, reason):
                return self._order_failed(action, reason)
            case inputs.Connected():
                self._tell_at = now
            case inputs.Acknowledged(receipt):
                self._acknowledged(receipt)
        return NOTHING

    def due(self, now: float) -> Decision:
        """Return the next thing that is to be done; ask again until there is nothing."""
        return self._check_letters() or self._tell(now) or self._score(now)

    def wake_at(self) -> float:
        """Return when something is due if nothing happens before; infinity if nothing is."""
        times = [self._tell_at] if self._answers_order and not self._told else []
        if self._wants_score and self._scoring is None:
            if self._fetch_weights_at is not None:
                times.append(self._fetch_weights_at)
            if self._fetching:
                times.append(self._since + GATHER_SECONDS)
        return min(times, default=float("inf"))

    def _gradients(self, event: inputs.Gradients) -> Decision:
        body, device = event.body, event.device
        name = Name(body.key, body.payload)
        known = self._records.letters.get(name)
        if known is not None:
            return NOTHING if known.answer is None else _receipt(device, name, known.answer)
        if name in self._fetching:
            return NOTHING
        fault = self._fault(event)
        if fault:
            return _receipt(device, name, Refused(reason=fault))
        under_way = sum(letter.size for letter in self._fetching.values())
        room = self._rules.waiting_bytes - self._records.waiting_bytes - under_way
        if body.payload_bytes > room:
            return _later(device, name, "the proxy's room for gradients is taken")
        letter = Letter(name, device, body.method, body.lineage, body.payload_bytes)
        if body.offer is None:
            return self._kept(letter, event.attachment)
        self._fetching[name] = letter
        return Decision(requests=(FetchPayload(device, name, body.offer),))

    def _kept(self, letter: Letter, data: bytes) -> Decision:
        if self._order is not None and self._order.lineage != letter.lineage:
            self._early.add(letter.name)
        return Decision((LetterKept(letter, data),))

    def _fault(self, event: inputs.Gradients) -> str:
        body = event.body
        most = self._rules.payload_bytes
        if body.payload_bytes > most:
            return f"payload_bytes: {body.payload_bytes}, and this proxy takes {most} at most"
        if body.offer is None and (
            len(event.attachment) != body.payload_bytes
            or Digest.of(event.attachment) != body.payload
        ):
            return f"payload: {body.payload.short} was promised, other bytes are attached"
        others = (*self._records.letters.values(), *self._fetching.values())
        if any((item.device, item.name.key) == (event.device, body.key) for item in others):
            return (
                f"key: other gradients of stage {body.key.stage}, round {body.key.part} are here "
                "already; a device gives one set a round"
            )
        return ""

    def _check_letters(self) -> Decision:
        """Refuse what can't be of the order's network and stage; have the others checked."""
        order = self._order
        if order is None or self._failed:
            return NOTHING
        for letter in self._records.letters.values():
            if letter.answer is not None or letter.name in self._checking | self._early:
                continue
            fault = self._misfit(letter, order)
            if fault:
                return self._answered(letter.name, fault)
            if letter.lineage == order.lineage and letter.name.key.stage <= order.stage:
                self._checking.add(letter.name)
                return Decision(requests=(Check(order, letter.name),))
        return NOTHING

    def _misfit(self, letter: Letter, order: ScoringOrder) -> str:
        if letter.name.key.stage > order.stage:
            return ""
        if (letter.method, letter.lineage) != (order.method, order.lineage):
            return (
                f"lineage: gradients of {letter.method} {letter.lineage.short}, and the fleet "
                f"trains {order.method} {order.lineage.short}"
            )
        scored = self._records.scored
        known = scored.task if scored is not None and scored.lineage == order.lineage else 0
        if letter.name.key.stage < known:
            return (
                f"key.stage: {letter.name.key.stage}, and pictures of stage {known} are gathered "
                "by now"
            )
        return ""

    def _answered(self, name: Name, fault: str) -> Decision:
        letter = self._records.letters.get(name)
        if letter is None or letter.answer is not None:
            return NOTHING
        place = sum(item.answer is not None for item in self._records.letters.values())
        answer: Final = Refused(reason=fault[:_REASON]) if fault else Accepted(ledger_index=place)
        assert letter.device is not None  # it is forgotten with the answer, or later
        told = _receipt(letter.device, name, answer)
        return Decision((LetterAnswered(name, answer),), told.requests)

    def _ordered(self, order: ScoringOrder, now: float) -> None:
        known = self._order
        if known is not None and known.lineage == order.lineage and order.action < known.action:
            return
        if known is None or (known.action, known.lineage) != (order.action, order.lineage):
            self._early.clear()
        if known is None or known.weights.digest != order.weights.digest:
            self._weights = None
            self._fetch_weights_at = now
            self._since = now
        self._order = order
        self._failed = False
        self._told, self._tell_at = False, now

    def _tell(self, now: float) -> Decision:
        scored = self._records.scored
        if scored is None or self._told or now < self._tell_at or not self._answers_order:
            return NOTHING
        self._tell_at = now + TELL_SECONDS
        return Decision(requests=(Tell(scored.answer),))

    def _acknowledged(self, receipt: Receipt) -> None:
        scored = self._records.scored
        if scored is not None and receipt.key == scored.key:
            self._told = True

    def _score(self, now: float) -> Decision:
        order = self._order
        if order is None or self._scoring is not None or not self._wants_score:
            return NOTHING
        if self._weights != order.weights.digest:
            if self._fetch_weights_at is None or now < self._fetch_weights_at:
                return NOTHING
            self._fetch_weights_at = None
            return Decision(requests=(FetchWeights(order),))
        if self._checking or (self._fetching and now < self._since + GATHER_SECONDS):
            return NOTHING
        self._scoring = order.action
        scored = self._records.scored
        fresh = tuple(
            letter.name
            for letter in self._records.letters.values()
            if letter.size and letter.lineage == order.lineage and _accepted(letter)
        )
        anew = scored is None or scored.lineage != order.lineage
        return Decision(requests=(Score(order, fresh, anew),))

    def _order_failed(self, action: int, reason: str) -> Decision:
        if self._scoring == action:
            self._scoring = None
        if self._order is None or self._order.action != action or self._failed:
            return NOTHING
        self._failed = True
        self._checking.clear()
        text = f"order {action} of the coordinator was not carried out: {reason}"[:_REASON]
        return Decision(requests=(Tell(Problem(about="scoring", text=text)),))

    @property
    def _answers_order(self) -> bool:
        """Whether the stored answer is that to the newest order."""
        scored, order = self._records.scored, self._order
        return (
            scored is not None
            and order is not None
            and (scored.answer.action, scored.weights) == (order.action, order.weights.digest)
        )

    @property
    def _wants_score(self) -> bool:
        """Whether there is an order that is neither scored nor beyond this proxy."""
        order, scored = self._order, self._records.scored
        if order is None or self._failed or self._answers_order:
            return False
        # An order from before the last one that was scored came late.
        return (
            scored is None
            or scored.lineage != order.lineage
            or (order.action > scored.answer.action)
        )


def _accepted(letter: Letter) -> bool:
    return isinstance(letter.answer, Accepted)


def _receipt(device: DeviceId, name: Name, answer: Accepted | Refused | Later) -> Decision:
    receipt = Receipt(about="gradients", key=name.key, payload=name.payload, answer=answer)
    request: Request = Answer(device, receipt)
    return Decision(requests=(request,))


def _later(device: DeviceId | None, name: Name, reason: str) -> Decision:
    assert device is not None  # letters that are not answered have one
    return _receipt(device, name, Later(after_seconds=LATER_SECONDS, reason=reason[:_REASON]))
