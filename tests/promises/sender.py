"""A device as a process that keeps its outbox in SQLite and gives what is in it, to be killed.

It speaks the protocol as an agent does and computes nothing.

With the file of a key it signs what it sends, for the coordinator's birth that it heard last.

python -m tests.promises.sender PORT DEVICE PASSWORD OUTBOX [KEY]
"""

from __future__ import annotations

import sqlite3
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from benchmarks.speed.contribution_rate.load import FLEET, sealed_again
from fleetledger.schemas.enrolment import device_key_name
from fleetledger.schemas.envelope import Envelope, Sender, decode
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.presence import CoordinatorBirth
from fleetledger.schemas.receipts import Accepted, Later, Receipt
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, Digest
from fleetledger.transport.errors import TransportError
from fleetledger.transport.interface import Connected, IncomingMessage, OutgoingMessage
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings

WINDOW = 4
"""The payloads of a device that a coordinator takes in at a time."""
_AGAIN_SECONDS = (1.0, 2.0)
TOPICS = FleetTopics(FLEET)


def open_outbox(path: Path) -> sqlite3.Connection:
    """Open a device's outbox: a message for each part, and its place once a receipt names it."""
    db = sqlite3.connect(path, isolation_level=None, timeout=30)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute(
        "CREATE TABLE IF NOT EXISTS letter"
        " (part INTEGER PRIMARY KEY, message BLOB NOT NULL, place INTEGER) STRICT"
    )
    return db


@dataclass
class OutboxSender:
    """Sends what has no place yet, a few at a time, again and again."""

    device: DeviceId
    connection: MqttConnection
    outbox: sqlite3.Connection
    signer: Sender | None = None
    birth: Digest | None = None
    due: dict[int, float] = field(default_factory=dict)
    random: Random = field(default_factory=Random)

    def run(self) -> None:
        """Go on until every letter has its place in the ledger."""
        while self.waiting():
            event = self.connection.next_event(0.05)
            if isinstance(event, Connected):
                self.due.clear()
            if isinstance(event, IncomingMessage):
                self.hear(decode(event.payload))
                self.connection.acknowledge(event)
            self.send_due()

    def waiting(self) -> list[int]:
        """Return the next parts without a place."""
        query = "SELECT part FROM letter WHERE place IS NULL ORDER BY part LIMIT ?"
        return [part for (part,) in self.outbox.execute(query, [WINDOW])]

    def hear(self, envelope: Envelope) -> None:
        """Take a receipt, or note the run of the coordinator that it is said for."""
        if envelope.header.kind == Receipt.kind:
            self.take(envelope.read(Receipt))
        elif envelope.header.kind == CoordinatorBirth.kind:
            self.birth = envelope.message_id

    def take(self, receipt: Receipt) -> None:
        """Write a place down; it is the same however often the letter is answered."""
        part = receipt.key.part
        match receipt.answer:
            case Accepted(ledger_index=place):
                query = "SELECT place FROM letter WHERE part = ?"
                (known,) = self.outbox.execute(query, [part]).fetchone()
                assert known in (None, place), f"part {part} is at {known} and at {place}"
                self.outbox.execute("UPDATE letter SET place = ? WHERE part = ?", [place, part])
            case Later(after_seconds=seconds):
                self.due[part] = time.monotonic() + seconds
            case refused:
                raise AssertionError(f"part {part}: {refused}")

    def send_due(self) -> None:
        now = time.monotonic()
        if self.signer is not None and self.birth is None:
            return
        for part in self.waiting():
            if self.due.get(part, 0.0) > now:
                continue
            query = "SELECT message FROM letter WHERE part = ?"
            (message,) = self.outbox.execute(query, [part]).fetchone()
            if self.signer is not None and self.birth is not None:
                message = sealed_again(self.signer, message, self.birth)
            try:
                self.connection.publish(OutgoingMessage(TOPICS.up(self.device, "msg"), message))
            except TransportError:
                return  # without a connection; it is sent when there is one
            self.due[part] = now + self.random.uniform(*_AGAIN_SECONDS)


def main() -> None:
    port, name, password, outbox, *files = sys.argv[1:]
    device, signer = DeviceId(name), None
    for file in files:
        key = SigningKey.from_pem(device_key_name(FLEET, device), Path(file).read_bytes())
        signer = Sender(FLEET, device, BootId.fresh(), signer=key)
    connection = MqttConnection(
        MqttSettings(
            client_id=f"{device}.control",
            port=int(port),
            user=device,
            password=password,
            reconnect_shortest_seconds=0.05,
            reconnect_longest_seconds=0.5,
        )
    )
    connection.subscribe(*TOPICS.to_device(device, "rcpt"), TOPICS.coordinator_state)
    connection.start()
    OutboxSender(device, connection, open_outbox(Path(outbox)), signer).run()
    connection.stop()


if __name__ == "__main__":
    main()
