"""The rules of a proxy, without I/O: orders here, gradients in `gradients`.

- The newest order is scored, one at a time, when its weights are here and nothing is being checked;
  gradients that are still on their way are waited for a little.
- What an order came to is told until the coordinator's receipt, and again whenever the same order
  comes again. An order is scored once.
"""

from __future__ import annotations

from fleetledger.coordinator.proxy import decision as happened
from fleetledger.coordinator.proxy.decision import NOTHING, ProxyDecision, ProxyFetch, Score, Tell
from fleetledger.coordinator.proxy.gradients import GradientsIntake
from fleetledger.coordinator.proxy.records import GradientsStored, Name, OrderScored, ProxyRecords
from fleetledger.coordinator.proxy.settings import Limits
from fleetledger.schemas.envelope import PROXY
from fleetledger.schemas.proxy import ScoringOrder
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.reports import Problem
from fleetledger.transport.interface import Connected

TELL_SECONDS = 10.0
"""Between repeats of a score that the coordinator has not acknowledged."""
GATHER_SECONDS = 10.0
"""How long an order waits for gradients that are being fetched."""
RETRY_SECONDS = 10.0
_MOST_TEXT = 500
_NEVER = float("inf")


class ProxyCore:
    """Decides by `records`, to which the caller applies what was decided once it is written."""

    def __init__(self, rules: Limits, records: ProxyRecords) -> None:
        self._records = records
        self._intake = GradientsIntake(rules, records)
        self._order: ScoringOrder | None = None
        self._since = 0.0
        self._weights: bytes | None = None
        """The order's, once they are here and until they are scored."""
        self._fetch_at = _NEVER
        """When the order's weights are to be fetched; never while they are, or are here."""
        self._scoring: int | None = None
        """Action of the order that is being scored."""
        self._failed = False
        self._tell_at = _NEVER
        """When the stored answer is to be told; never once its receipt came."""

    def handle(self, event: happened.Input, now: float) -> ProxyDecision:
        """Decide about what happened."""
        match event:
            case happened.Gradients():
                return self._intake.gradients(event)
            case happened.Fetched(Name() as name, data, fault):
                return self._intake.fetched(name, data, fault)
            case happened.Checked(name, fault):
                return self._intake.checked(name, fault)
            case ScoringOrder():
                self._ordered(event, now)
            case happened.Fetched(ScoringOrder() as order, data) if self._has_weights_of(order):
                self._weights = data
                self._fetch_at = now + RETRY_SECONDS if data is None else _NEVER
            case OrderScored():
                self._scoring, self._tell_at = None, now
                used = (self._records.gradients[name].forgotten() for name in event.used)
                return ProxyDecision((event, *map(GradientsStored, used)))
            case happened.OrderFailed(action, reason):
                return self._order_failed(action, reason, now)
            case Connected():
                self._tell_at = now if self._tell_at < _NEVER else _NEVER
            case Receipt(key=key) if self._records.scored and key == self._records.scored.key:
                self._tell_at = _NEVER
        return NOTHING

    def due(self, now: float) -> ProxyDecision:
        """Return the next thing that is to be done; ask again until there is nothing."""
        order = self._order
        if order is None:
            return NOTHING
        checks = NOTHING if self._failed else self._intake.due(order)
        return checks or self._tell(now) or self._score(order, now)

    def wake_at(self) -> float:
        """Return when something is due if nothing happens before; infinity if nothing is."""
        times = [self._tell_at if self._answers_order else _NEVER]
        if self._wants_score and self._scoring is None:
            gathered = self._since + GATHER_SECONDS if self._intake.fetching else _NEVER
            times += [self._fetch_at, gathered]
        return min(times)

    def _ordered(self, order: ScoringOrder, now: float) -> None:
        known = self._order
        if known is not None and known.lineage == order.lineage and order.action < known.action:
            return
        if known is None or (known.action, known.lineage) != (order.action, order.lineage):
            self._intake.new_order(order)
            self._weights = None
            self._fetch_at = self._since = now
        self._order, self._failed, self._tell_at = order, False, now

    def _tell(self, now: float) -> ProxyDecision:
        scored = self._records.scored
        if scored is None or now < self._tell_at or not self._answers_order:
            return NOTHING
        self._tell_at = now + TELL_SECONDS
        return ProxyDecision(requests=(Tell(scored.answer),))

    def _score(self, order: ScoringOrder, now: float) -> ProxyDecision:
        if self._scoring is not None or not self._wants_score:
            return NOTHING
        if self._weights is None:
            if now < self._fetch_at:
                return NOTHING
            self._fetch_at = _NEVER
            return ProxyDecision(requests=(ProxyFetch(order, order.weights, PROXY),))
        waits = self._intake.fetching and now < self._since + GATHER_SECONDS
        if self._intake.checking or waits:
            return NOTHING
        weights, self._weights, self._scoring = self._weights, None, order.action
        anew = self._records.scored_of(order.lineage) is None
        return ProxyDecision(requests=(Score(order, weights, self._intake.fresh(order), anew),))

    def _order_failed(self, action: int, reason: str, now: float) -> ProxyDecision:
        if self._scoring == action:
            self._scoring = None
        if self._order is None or self._order.action != action or self._failed:
            return NOTHING
        self._failed = True
        self._intake.checking.clear()
        # Should the same order come again, it gets another chance, and its file again.
        self._weights, self._fetch_at = None, now
        text = f"order {action} of the coordinator was not carried out: {reason}"[:_MOST_TEXT]
        return ProxyDecision(requests=(Tell(Problem(about="scoring", text=text)),))

    def _has_weights_of(self, order: ScoringOrder) -> bool:
        return self._order is not None and self._order.weights.digest == order.weights.digest

    @property
    def _answers_order(self) -> bool:
        """Whether the stored answer is that to the newest order."""
        scored = self._records.scored
        return scored is not None and scored.answers(self._order)

    @property
    def _wants_score(self) -> bool:
        """Whether there is an order that is neither scored nor beyond this proxy."""
        order = self._order
        if order is None or self._failed or self._answers_order:
            return False
        scored = self._records.scored_of(order.lineage)
        # An order from before the last one that was scored came late.
        return scored is None or order.action > scored.order.action
