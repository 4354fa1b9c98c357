"""What a message means for the rules: within its device's quota, readable, and to be believed."""

from __future__ import annotations

import logging

from coordinator.core import inputs
from coordinator.gate import Gate
from coordinator.quotas import Quotas
from schemas.contributions import Contribution
from schemas.envelope import decode
from schemas.errors import SchemaError
from schemas.topics import DeviceTopic, FleetTopics
from schemas.values import DeviceId
from transport.clock import Clock
from transport.interface import Received

log = logging.getLogger("coordinator")


class Hearing:
    """Reads what arrives; the quota is asked first, because reading is what costs."""

    def __init__(self, topics: FleetTopics, gate: Gate, quotas: Quotas, clock: Clock) -> None:
        self._topics = topics
        self._gate = gate
        self._quotas = quotas
        self._clock = clock

    def hear(self, message: Received) -> tuple[inputs.Input | None, bool]:
        """Return what a message means, None for nothing, and whether it was within the quota."""
        try:
            spoken = self._topics.parse(message.topic)
        except SchemaError as error:
            log.warning("a message that is none of ours: %s", error)
            return None, True
        if not message.payload:
            return None, True  # a retained message was cleared
        now = self._clock.seconds()
        if not self._quotas.takes(spoken, len(message.payload), now):
            return self._put_off(spoken, message.payload, now), False
        happening = self._understood(spoken.device, message)
        if _offers(happening) and not self._quotas.may_offer(spoken, now):
            return self._put_off(spoken, message.payload, now, offers=True), False
        return happening, True

    def charge(self, device: DeviceId, size: int) -> None:
        """Count the bytes of a payload that is fetched from a device."""
        self._quotas.charge(device, size, self._clock.seconds())

    def _understood(self, device: DeviceId, message: Received) -> inputs.Input | None:
        try:
            envelope = decode(message.payload)
        except SchemaError as error:
            log.warning("%s: %s", device, error)
            return inputs.UnreadableMessage(device, str(error))
        if envelope.header.fleet != self._topics.fleet:
            reason = f"fleet: {str(envelope.header.fleet)!r} is not this fleet"
            return inputs.UnreadableMessage(device, reason)
        return self._gate.take(message.topic, envelope)

    def _put_off(
        self, spoken: DeviceTopic, payload: bytes, now: float, *, offers: bool = False
    ) -> inputs.Input | None:
        """Say now and then to a device that sends too much when it may send again."""
        count = self._quotas.left_out[spoken.device]
        if count & (count - 1) == 0:  # the first, and whenever there are twice as many
            log.warning("%s: %d messages beyond its quota so far", spoken.device, count)
        seconds = self._quotas.put_off(spoken, now, offers=offers)
        if seconds is None:
            return None
        try:
            return inputs.MessagePutOff(spoken.device, decode(payload), seconds)
        except SchemaError:
            return None


def _offers(happening: inputs.Input | None) -> bool:
    """Whether a message offers a payload that is to be fetched."""
    if not isinstance(happening, inputs.DeviceMessage):
        return False
    header = happening.envelope.header
    return header.kind == Contribution.kind and header.body.get("offer") is not None
