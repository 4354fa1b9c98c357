"""The rules of messages with gradients: what is taken in, checked, answered, and handed over.

- A message is known by stage, round and the digest of its bytes. A repeat gets the receipt that was
  given, or none yet; a device that sends other gradients under the same key while the first wait is
  refused.
- Nothing larger than the limit is fetched, nothing is taken in beyond the room there is, and
  nothing is acknowledged before it is on the disk.
- Gradients are checked when an order of their stage or a later one is here. Then those of a stage
  before the one whose pictures are gathered are refused. Those of another network wait for the next
  order, which may be of theirs, and are refused if it is not.
"""

from __future__ import annotations

from fleetledger.coordinator.proxy import decision
from fleetledger.coordinator.proxy.decision import NOTHING, ProxyDecision
from fleetledger.coordinator.proxy.records import (
    GradientsStored,
    HeldGradients,
    Name,
    ProxyRecords,
)
from fleetledger.coordinator.proxy.settings import MEGABYTE, Limits
from fleetledger.schemas.proxy import ScoringOrder
from fleetledger.schemas.receipts import Accepted, Later, Receipt, Refused
from fleetledger.schemas.values import DeviceId, Digest

LATER_SECONDS = 30.0
_REASON = 500


class GradientsIntake:
    """Decides about gradients; the newest order is told with each question that needs it."""

    def __init__(self, limits: Limits, records: ProxyRecords) -> None:
        self._most_of_one = round(limits.payload_megabytes * MEGABYTE)
        self._most_of_all = round(limits.waiting_megabytes * MEGABYTE)
        self._records = records
        self._lineage: Digest | None = None
        """Of the newest order."""
        self.fetching: dict[Name, HeldGradients] = {}
        self.checking: set[Name] = set()
        self._early: set[Name] = set()
        """Messages of another network that came after the newest order."""

    @property
    def _here(self) -> tuple[HeldGradients, ...]:
        return (*self._records.gradients.values(), *self.fetching.values())

    def fresh(self, order: ScoringOrder) -> tuple[Name, ...]:
        """Return what was accepted and no model was scored by yet."""
        return tuple(
            held.name
            for held in self._records.gradients.values()
            if held.size and held.lineage == order.lineage and isinstance(held.answer, Accepted)
        )

    def new_order(self, order: ScoringOrder) -> None:
        """Look again at what did not fit the order before."""
        self._lineage = order.lineage
        self._early.clear()

    def gradients(self, event: decision.Gradients) -> ProxyDecision:
        """Take gradients in, or say why not."""
        body, device = event.body, event.device
        name = Name(body.key, body.payload)
        known = self._records.gradients.get(name)
        if known is not None:
            return NOTHING if known.answer is None else _receipt(device, name, known.answer)
        if name in self.fetching:
            return NOTHING
        fault = self._fault(event)
        if fault:
            return _receipt(device, name, Refused(reason=fault))
        if body.payload_bytes + sum(held.size for held in self._here) > self._most_of_all:
            return _later(device, name, "the proxy's room for gradients is taken")
        held = HeldGradients(name, device, body.method, body.lineage, body.payload_bytes)
        if body.offer is None:
            return self._kept(held, event.attachment)
        self.fetching[name] = held
        return ProxyDecision(requests=(decision.ProxyFetch(name, body.offer, device),))

    def fetched(self, name: Name, data: bytes | None, fault: str) -> ProxyDecision:
        """Keep what was fetched; ask a device to send again what did not come."""
        held = self.fetching.pop(name, None)
        if held is None:
            return NOTHING
        return _later(held.device, name, fault) if data is None else self._kept(held, data)

    def due(self, order: ScoringOrder) -> ProxyDecision:
        """Refuse what can't be of the order's network and stage; have the others checked."""
        for held in self._records.gradients.values():
            if held.answer is not None or held.name in self.checking | self._early:
                continue
            fault = self._misfit(held, order)
            if fault:
                return self.checked(held.name, fault)
            if held.lineage == order.lineage and held.name.key.stage <= order.stage:
                self.checking.add(held.name)
                return ProxyDecision(requests=(decision.Check(order, held.name),))
        return NOTHING

    def _kept(self, held: HeldGradients, data: bytes) -> ProxyDecision:
        if self._lineage not in (None, held.lineage):
            self._early.add(held.name)
        return ProxyDecision((GradientsStored(held, data),))

    def _fault(self, event: decision.Gradients) -> str:
        body, most = event.body, self._most_of_one
        if body.payload_bytes > most:
            return f"payload_bytes: {body.payload_bytes}, and this proxy takes {most} at most"
        if body.offer is None and (
            len(event.attachment) != body.payload_bytes
            or Digest.of(event.attachment) != body.payload
        ):
            return f"payload: {body.payload.short} was promised, other bytes are attached"
        if any((held.device, held.name.key) == (event.device, body.key) for held in self._here):
            return (
                f"key: other gradients of stage {body.key.stage}, round {body.key.part} are here "
                "already; a device gives one set a round"
            )
        return ""

    def _misfit(self, held: HeldGradients, order: ScoringOrder) -> str:
        if held.name.key.stage > order.stage:
            return ""
        if (held.method, held.lineage) != (order.method, order.lineage):
            return (
                f"lineage: gradients of {held.method} {held.lineage.short}, and the fleet "
                f"trains {order.method} {order.lineage.short}"
            )
        scored = self._records.scored_of(order.lineage)
        known = 0 if scored is None else scored.task
        if held.name.key.stage < known:
            return (
                f"key.stage: {held.name.key.stage}, and pictures of stage {known} are gathered "
                "by now"
            )
        return ""

    def checked(self, name: Name, fault: str) -> ProxyDecision:
        """Accept what was checked, or refuse it."""
        self.checking.discard(name)
        held = self._records.gradients.get(name)
        if held is None or held.answer is not None:
            return NOTHING
        place = sum(item.answer is not None for item in self._records.gradients.values())
        accepted = Accepted(ledger_index=place)
        answer = Refused(reason=fault[:_REASON]) if fault else accepted
        told = _receipt(held.device, name, answer)
        return ProxyDecision((GradientsStored(held.answered(answer)),), told.requests)


def _receipt(
    device: DeviceId | None, name: Name, answer: Accepted | Refused | Later
) -> ProxyDecision:
    assert device is not None  # it is forgotten with the answer, or later
    receipt = Receipt(about="gradients", key=name.key, payload=name.payload, answer=answer)
    return ProxyDecision(requests=(decision.Tell(receipt, device),))


def _later(device: DeviceId | None, name: Name, reason: str) -> ProxyDecision:
    return _receipt(device, name, Later(after_seconds=LATER_SECONDS, reason=reason[:_REASON]))
