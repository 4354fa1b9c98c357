"""The rules of a proxy, without I/O: orders here, gradients in `gradients`.

- The newest order is scored, one at a time, when its weights are here and nothing is being checked;
  gradients that are still on their way are waited for a little.
- What an order came to is told until the coordinator's receipt, and again whenever the same order
  comes again. An order is scored once.
"""

from __future__ import annotations

from fleetledger.coordinator.proxy import inputs
from fleetledger.coordinator.proxy.gradients import GradientsIntake, ProxyLimits
from fleetledger.coordinator.proxy.records import Change, ProxyRecords, apply
from fleetledger.coordinator.proxy.requests import NOTHING, FetchWeights, ProxyDecision, Score, Tell
from fleetledger.schemas.proxy import ScoringOrder
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.values import Digest

TELL_SECONDS = 10.0
"""Between repeats of a score that the coordinator has not acknowledged."""
GATHER_SECONDS = 10.0
"""How long an order waits for gradients that are being fetched."""
RETRY_SECONDS = 10.0
_MOST_TEXT = 500


class ProxyCore:
    """Decides; `commit` follows what was decided and written."""

    def __init__(self, rules: ProxyLimits, records: ProxyRecords) -> None:
        self._records = records
        self._intake = GradientsIntake(rules, records)
        self._order: ScoringOrder | None = None
        self._since = 0.0
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

    def handle(self, event: inputs.Input, now: float) -> ProxyDecision:
        """Decide about what happened."""
        match event:
            case inputs.Gradients():
                return self._intake.gradients(event)
            case inputs.PayloadFetched(name, data):
                return self._intake.fetched(name, data)
            case inputs.PayloadLost(name, reason):
                return self._intake.lost(name, reason)
            case inputs.Checked(name, fault):
                return self._intake.checked(name, fault)
            case inputs.Ordered(order):
                self._ordered(order, now)
            case inputs.WeightsFetched(weights) if self._is_ordered(weights):
                self._weights = weights
            case inputs.WeightsLost(weights) if self._is_ordered(weights):
                self._fetch_weights_at = now + RETRY_SECONDS
            case inputs.ScoringFinished(change):
                self._scoring, self._told, self._tell_at = None, False, now
                return ProxyDecision((change,))
            case inputs.OrderFailed(action, reason):
                return self._order_failed(action, reason, now)
            case inputs.ProxyConnected():
                self._tell_at = now
            case inputs.Acknowledged(receipt):
                self._acknowledged(receipt)
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
        times = [self._tell_at] if self._answers_order and not self._told else []
        if self._wants_score and self._scoring is None:
            if self._fetch_weights_at is not None:
                times.append(self._fetch_weights_at)
            if self._intake.under_way:
                times.append(self._since + GATHER_SECONDS)
        return min(times, default=float("inf"))

    def _ordered(self, order: ScoringOrder, now: float) -> None:
        known = self._order
        if known is not None and known.lineage == order.lineage and order.action < known.action:
            return
        if known is None or (known.action, known.lineage) != (order.action, order.lineage):
            self._intake.new_order(order)
            self._weights = None
            self._fetch_weights_at = self._since = now
        self._order = order
        self._failed = False
        self._told, self._tell_at = False, now

    def _tell(self, now: float) -> ProxyDecision:
        scored = self._records.scored
        if scored is None or self._told or now < self._tell_at or not self._answers_order:
            return NOTHING
        self._tell_at = now + TELL_SECONDS
        return ProxyDecision(requests=(Tell(scored.answer),))

    def _acknowledged(self, receipt: Receipt) -> None:
        scored = self._records.scored
        if scored is not None and receipt.key == scored.key:
            self._told = True

    def _score(self, order: ScoringOrder, now: float) -> ProxyDecision:
        if self._scoring is not None or not self._wants_score:
            return NOTHING
        if self._weights is None:
            if self._fetch_weights_at is None or now < self._fetch_weights_at:
                return NOTHING
            self._fetch_weights_at = None
            return ProxyDecision(requests=(FetchWeights(order),))
        waits = self._intake.under_way and now < self._since + GATHER_SECONDS
        if self._intake.being_checked or waits:
            return NOTHING
        self._scoring = order.action
        scored = self._records.scored
        anew = scored is None or scored.lineage != order.lineage
        return ProxyDecision(requests=(Score(order, self._intake.fresh(order), anew),))

    def _order_failed(self, action: int, reason: str, now: float) -> ProxyDecision:
        if self._scoring == action:
            self._scoring = None
        if self._order is None or self._order.action != action or self._failed:
            return NOTHING
        self._failed = True
        self._intake.stop_checking()
        # Should the same order come again, it gets another chance, and its file again.
        self._weights, self._fetch_weights_at = None, now
        text = f"order {action} of the coordinator was not carried out: {reason}"[:_MOST_TEXT]
        return ProxyDecision(requests=(Tell(Problem(about="scoring", text=text)),))

    def _is_ordered(self, weights: Digest) -> bool:
        return self._order is not None and self._order.weights.digest == weights

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
