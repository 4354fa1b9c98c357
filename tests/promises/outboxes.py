"""Devices that have many contributions to give: each keeps to its outbox until the receipt.

They speak the protocol as an agent does and compute nothing, so that ten thousand contributions
take seconds. A device that is killed loses what it had sent and every message on its way to it; its
outbox is its disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from fleetledger.schemas.contributions import Contribution, PartKey
from fleetledger.schemas.envelope import Sender, decode, encode
from fleetledger.schemas.presence import Birth
from fleetledger.schemas.receipts import Accepted, Later, Receipt
from fleetledger.schemas.values import BootId, DeviceId
from fleetledger.transport.interface import IncomingMessage, OutgoingMessage
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.core.harness import CAPABLE
from tests.coordinator.shell_harness import FLEET, TOPICS

WINDOW = 16
"""Contributions of a device on their way at a time."""
_PATIENCE = (60, 120)
"""Turns of the fleet after which something is sent again, drawn between these."""


@dataclass(frozen=True)
class Letter:
    """One contribution, and its payload."""

    body: Contribution
    payload: bytes


class OutboxDevice:
    """Sends letters until each has its receipt."""

    def __init__(self, name: DeviceId, broker: InMemoryBroker, letters: Sequence[Letter]) -> None:
        self.name = name
        self.outbox: dict[PartKey, Letter] = {item.body.key: item for item in letters}
        self.indices: dict[PartKey, int] = {}
        """Where the ledger has each letter, as its receipt said."""
        self.receipts = 0
        self._broker = broker
        self._random = Random(str(name))
        self._installation = BootId.fresh()
        self.start()

    def start(self) -> None:
        """Begin a run of the program, with what lies on the disk."""
        self._sender = Sender(FLEET, self.name, BootId.fresh())
        self._control = self._broker.connection(f"{self.name}.control")
        self._control.subscribe(*TOPICS.to_device(self.name, "rcpt"))
        self._control.start()
        self._due: dict[PartKey, int] = {}
        birth = Birth(installation=self._installation, capabilities=CAPABLE)
        self._publish("state", encode(self._sender.seal(birth, sent_ms=0)))

    def kill(self) -> None:
        """End without a goodbye, and start again."""
        self._broker.drop_connection(f"{self.name}.control", comes_back=False)
        self.start()

    def turn(self, now: int) -> None:
        """Take the receipts that have come, and send what is due."""
        while (event := self._control.next_event(0)) is not None:
            if isinstance(event, IncomingMessage):
                self._take(decode(event.payload).read(Receipt))
                self._control.acknowledge(event)
        for key in list(self.outbox)[:WINDOW]:
            if self._due.get(key, 0) <= now:
                self._due[key] = now + self._random.randint(*_PATIENCE)
                letter = self.outbox[key]
                envelope = self._sender.seal(letter.body, sent_ms=0, attachment=letter.payload)
                self._publish("msg", encode(envelope))

    def stop(self) -> None:
        """Leave the broker."""
        self._control.stop()

    def _take(self, receipt: Receipt) -> None:
        match receipt.answer:
            case Accepted(ledger_index=index):
                self.receipts += 1
                self.outbox.pop(receipt.key, None)
                # A letter has one place in the ledger, however often it is answered.
                assert self.indices.setdefault(receipt.key, index) == index
            case Later():
                pass  # it is sent again
            case refused:
                raise AssertionError(f"{self.name}: {receipt.key}: {refused}")

    def _publish(self, leaf: str, data: bytes) -> None:
        topic = TOPICS.up(self.name, leaf)  # type: ignore[arg-type]
        self._control.publish(OutgoingMessage(topic, data, retain=leaf == "state"))
