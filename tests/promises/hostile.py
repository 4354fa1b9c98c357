"""A device that sends the costliest header lines there can be, as fast as it is told to.

What costs most to read is chosen among all that `tests/fuzzing/worst.py` makes: thousands of names
where a body has a number or a list, each of them a fault that is to be told.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, cycle, product

from benchmarks.speed.transport_rate.raw import Peer, bare_client
from fleetledger.schemas.envelope import MAX_HEADER_BYTES, MAX_HEADER_VALUES, Envelope, Sender
from fleetledger.schemas.keys import SignatureText, SigningKey
from fleetledger.schemas.seals import DOMAIN, read_seal
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, Digest, FleetId
from tests.schemas.examples import EXAMPLES

_FRAME_BYTES, _FRAME_VALUES = 1024, 64
_COSTLIEST = {"transition": "uncertainty", "nothing": "observation"}
"""By kind the field that is spoiled: the first ones by what `worst.bodies` cost the reader."""
_PATIENCE_SECONDS = 60.0
_NUMBER, _SEQUENCE, _UNSIGNED = b'"sequence":%d,', b'"sequence":0,', b'"signature":null,'


@dataclass(frozen=True)
class Attacker:
    """Who attacks, and how."""

    peer: Peer
    fleet: FleetId
    per_second: float
    seconds: float
    signer: SigningKey | None = None
    """The key that is enrolled for the device; None where it has none."""
    birth: Digest | None = None
    """That of the coordinator, to which devices with keys refer."""

    @property
    def name(self) -> DeviceId:
        """The name of its account at the broker."""
        return DeviceId(self.peer.user)

    @property
    def topic(self) -> str:
        """The only one on which it may speak of what it has."""
        return str(FleetTopics(self.fleet).up(self.name, "msg"))


def messages(attacker: Attacker) -> Iterator[bytes]:
    """Return messages without end, each with its own number and, with a key, well signed."""
    lines = cycle(_lines(attacker))
    for number in count():
        line = next(lines).replace(_SEQUENCE, _NUMBER % number)
        yield (
            line if attacker.signer is None else _signed(attacker.signer, attacker, line)
        ) + b"\n"


def _lines(attacker: Attacker) -> list[bytes]:
    """Return header lines of a little below 128 KiB, numbered 0 and not signed."""
    sender = Sender(attacker.fleet, attacker.name, BootId.fresh())
    room = min((MAX_HEADER_BYTES - _FRAME_BYTES) // 10, MAX_HEADER_VALUES - _FRAME_VALUES)
    names = {f"/{number:x}": 1 for number in range(room)}
    key = None if attacker.signer is None else attacker.signer.verify_key.key_hash.hex()
    found = []
    for kind, field in _COSTLIEST.items():
        example = next(item for item in EXAMPLES if item.kind == kind)
        header = sender.seal(example, sent_ms=1, refers_to=attacker.birth).header
        body = {**header.body, field: names}
        spoiled = {"body": body, "sequence": 0, "key": key}
        found.append(Envelope(header.model_copy(update=spoiled)).line)
    return found


def _signed(key: SigningKey, attacker: Attacker, line: bytes) -> bytes:
    text = SignatureText.of(key.sign(DOMAIN, read_seal(line).signed_bytes(attacker.topic)))
    return line.replace(_UNSIGNED, f'"signature":"{text}",'.encode())


def send(port: int, attacker: Attacker) -> None:
    """Send at an even pace, in a process of its own that takes no time of those who measure."""
    client = bare_client("127.0.0.1", port, attacker.peer, attacker.name)
    made, began = messages(attacker), time.monotonic()
    for number in range(round(attacker.per_second * attacker.seconds)):
        time.sleep(max(0.0, began + number / attacker.per_second - time.monotonic()))
        client.publish(attacker.topic, next(made), qos=1).wait_for_publish(_PATIENCE_SECONDS)
    client.disconnect()
    client.loop_stop()


ROLES = ("", ".control", ".data", ".intake-0", ".watch", ".ready")


def connect_as(port: int, peer: Peer, users: Sequence[str], seconds: float) -> None:
    """Connect with one password under every name that a program may have, all of them each second.

    A session stays open until the next one of its name.
    """
    held: dict[str, socket.socket] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        for user, role in product(users, ROLES):
            session = socket.create_connection(("127.0.0.1", port), _PATIENCE_SECONDS)
            session.sendall(connect_packet(user + role, peer.user, peer.password))
            former = held.pop(user + role, None)
            held[user + role] = session
            if former is not None:
                former.close()
        time.sleep(max(0.0, began + 1.0 - time.monotonic()))
    for one in held.values():
        one.close()


def connect_packet(client_id: str, user: str, password: str) -> bytes:
    """Return a CONNECT of MQTT 3.1.1 with a clean session."""
    fields = b"".join(
        len(text).to_bytes(2, "big") + text
        for text in (client_id.encode(), user.encode(), password.encode())
    )
    body = b"\x00\x04MQTT\x04\xc2\x00\x3c" + fields
    return b"\x10" + bytes((len(body) & 0x7F | 0x80, len(body) >> 7)) + body
