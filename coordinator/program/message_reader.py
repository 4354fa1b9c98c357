"""Reading of messages: quota, form and signature, before the rules decide."""

from __future__ import annotations

import logging
from collections import Counter

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.program.authenticator import Authenticator
from fleetledger.coordinator.program.quotas import Quotas
from fleetledger.coordinator.program.workers.connection import CheckedMessage
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.log_lines import about
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.envelope import decode
from fleetledger.schemas.topics import DeviceTopic, FleetTopics
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.clock import Clock
from fleetledger.transport.interface import IncomingMessage

log = logging.getLogger("coordinator")

_LONGEST_ANSWERED = 16 * 1024
"""Bytes of the header line of a message that is answered "later"; most have some thousand.
A longer one is left out in silence, and comes again."""


class MessageReader:
    """Reads what arrives; the quota is asked first, because reading is what costs.

    What is beyond the quota is not read, except for the few short messages that may be answered.
    """

    def __init__(
        self, topics: FleetTopics, authenticator: Authenticator, quotas: Quotas, clock: Clock
    ) -> None:
        self._topics = topics
        self._authenticator = authenticator
        self._quotas = quotas
        self._clock = clock
        self.unreadable: Counter[DeviceId] = Counter()
        """Messages that are no envelopes of ours, since the start."""

    def read(self, message: IncomingMessage) -> tuple[inputs.Input | None, bool]:
        """Return what a message means, None for nothing, and whether it was within the quota."""
        try:
            spoken = self._topics.parse(message.topic)
        except SchemaError as error:
            log.warning("a message that is none of ours: %s", error, extra=about("message.foreign"))
            return None, True
        if not message.payload:
            return None, True  # a retained message was cleared
        now = self._clock.seconds()
        if not self._quotas.takes(spoken, len(message.payload), now):
            return self._defer(spoken, message.payload, now), False
        happening = self._understood(spoken.device, message)
        if not isinstance(happening, inputs.MessageRefused):  # of which only the end was read
            self._quotas.charge_json(spoken, message.payload.find(b"\n") + 1, now)
        if _offers(happening) and not self._quotas.may_offer(spoken, now):
            return self._defer(spoken, message.payload, now, offers=True), False
        return happening, True

    def charge(self, device: DeviceId, size: int) -> None:
        """Count the bytes of a payload that is fetched from a device."""
        self._quotas.charge(device, size, self._clock.seconds())

    def charge_json(self, device: DeviceId, size: int) -> None:
        """Count what it took to read a device's payload, as bytes of JSON."""
        spoken = DeviceTopic("up", device, "msg")
        self._quotas.charge_json(spoken, size, self._clock.seconds())

    def _understood(self, device: DeviceId, message: IncomingMessage) -> inputs.Input | None:
        try:
            if isinstance(message, CheckedMessage) and message.key is not None:
                return self._authenticator.authenticate_checked(
                    message.topic, message.payload, message.key
                )
            return self._authenticator.authenticate(message.topic, message.payload)
        except SchemaError as error:
            self.unreadable[device] += 1
            count = self.unreadable[device]
            if count & (count - 1) == 0:  # the first, and whenever there are twice as many
                said = about("message.not_readable", device=device, so_far=count)
                log.warning("%s: not readable, %d so far: %s", device, count, error, extra=said)
            return inputs.UnreadableMessage(device, str(error))

    def _defer(
        self, spoken: DeviceTopic, payload: bytes, now: float, *, offers: bool = False
    ) -> inputs.Input | None:
        """Say now and then to a device that sends too much when it may send again."""
        count = self._quotas.left_out[spoken.device]
        if count & (count - 1) == 0:  # the first, and whenever there are twice as many
            said = about("message.beyond_quota", device=spoken.device, so_far=count)
            log.warning("%s: %d messages beyond its quota so far", spoken.device, count, extra=said)
        if payload.find(b"\n", 0, _LONGEST_ANSWERED + 1) < 0:
            return None
        seconds = self._quotas.defer(spoken, now, offers=offers)
        if seconds is None:
            return None
        try:
            return inputs.MessageDeferred(
                spoken.device, decode(payload, wire=self._authenticator.wire), seconds
            )
        except SchemaError:
            return None


def _offers(happening: inputs.Input | None) -> bool:
    """Whether a message offers a payload that is to be fetched."""
    if not isinstance(happening, inputs.DeviceMessage):
        return False
    header = happening.envelope.header
    return header.kind == Contribution.kind and header.body.get("offer") is not None
