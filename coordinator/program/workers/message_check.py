"""Check of a message by a worker: its signature, and the method's verdict on its payload.

All of it is a function of the message, a key and a method's settings, and holds whoever has found
it. Whether that key is the device's and those settings count is the coordinator's to say, and so is
what is wrong with a message: what a worker cannot vouch for goes on as it came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fleetledger.coordinator.models import payload_check
from fleetledger.coordinator.program.workers.frames import CheckedBy, DeviceKey, FromWorker
from fleetledger.runtime.errors import FleetledgerError, SchemaError
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.envelope import Envelope, decode, split
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.seals import read_seal
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import DeviceId, Digest


@dataclass(frozen=True)
class _Method:
    name: str
    settings: Mapping[str, Any]
    digest: Digest
    check: payload_check.PayloadCheck


class Checking:
    """Checks messages by the keys and the settings that it was told; one thread uses it."""

    def __init__(self, topics: FleetTopics) -> None:
        self._topics = topics
        self._keys: dict[DeviceId, VerifyKey] = {}
        self._methods: dict[Digest, _Method] = {}

    def learn(self, word: DeviceKey | CheckedBy) -> None:
        """Check from now on by this key, or by these settings; of lineages the newest counts."""
        if isinstance(word, DeviceKey):
            self._keys[word.device] = word.key
        else:
            digest = payload_check.settings_digest(word.method, word.settings)
            method = _Method(word.method, word.settings, digest, payload_check.PayloadCheck())
            self._methods = {word.lineage: method}

    def found(self, message: FromWorker) -> FromWorker:
        """Return a message with what there is to say of it."""
        try:
            device = self._topics.parse(message.topic).device
            key = self._keys.get(device)
            if key is None:
                return message
            line, _ = split(message.payload)
            read_seal(line).check_signature(key, message.topic)
            envelope = decode(message.payload)
        except SchemaError:
            return message
        payload = envelope.line + b"\n" + envelope.attachment
        return replace(message, payload=payload, key=key, verdict=self._verdict(envelope))

    def _verdict(self, envelope: Envelope) -> payload_check.PayloadVerdict | None:
        """Have the method check what is attached to a contribution that answers no round."""
        header = envelope.header
        attached = header.attachment_digest
        if attached is None or header.kind != Contribution.kind or header.body.get("round"):
            return None
        method = self._methods.get(header.body.get("lineage", ""))
        if method is None or header.body.get("method") != method.name:
            return None
        try:
            samples = method.check(method.name, method.settings, envelope.attachment)
        except FleetledgerError as error:
            return payload_check.PayloadVerdict(attached, method.digest, {}, str(error))
        return payload_check.PayloadVerdict(attached, method.digest, samples)
