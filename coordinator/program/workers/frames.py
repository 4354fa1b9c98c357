"""Frames between the coordinator and its intake workers, as bytes.

A frame is one line of JSON and, from a worker, the envelope behind it: header line, line feed and
the attachment as it is, out of its zstd frame. Nothing is pickled: a worker reads what strangers
send, so what it says is data and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fleetledger.coordinator.models.payload_check import PayloadVerdict
from fleetledger.schemas.envelope import MAX_ENVELOPE_BYTES
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.values import ClassName, DeviceId, Digest

MAX_FRAME_BYTES = MAX_ENVELOPE_BYTES + (1 << 20)
"""Of a worker's frame: an envelope, and samples of some thousand classes twice."""


@dataclass(frozen=True)
class FromWorker:
    """A message of a device, and what a worker has found of it."""

    number: int
    """By which the coordinator says that it is committed."""
    topic: str
    payload: bytes
    """The envelope's bytes; where nothing was found, as they came."""
    key: VerifyKey | None = None
    """The key that signed it for its topic; None where that was not asked, or is not so."""
    verdict: PayloadVerdict | None = None
    """Of the attached payload, where the method has checked it."""


@dataclass(frozen=True)
class WorkerTurn:
    """A worker's word that it takes its turns."""

    away: str = ""
    """Why it is not connected to the broker; empty where it is."""


@dataclass(frozen=True)
class Committed:
    """Numbers of messages that may be acknowledged."""

    numbers: Sequence[int]


@dataclass(frozen=True)
class DeviceKey:
    """Whose signatures a worker may check, and with which key."""

    device: DeviceId
    key: VerifyKey


@dataclass(frozen=True)
class CheckedBy:
    """How payloads of a lineage are checked: a method and its settings."""

    method: str
    lineage: Digest
    settings: dict[str, Any]


ToWorker = Committed | DeviceKey | CheckedBy


def frame_of(message: FromWorker | WorkerTurn) -> bytes:
    """Return the bytes that `read_frame` reads."""
    if isinstance(message, WorkerTurn):
        return json.dumps({"away": message.away}).encode()
    found = message.verdict
    head: dict[str, Any] = {
        "number": message.number,
        "topic": message.topic,
        "key": message.key,
        "verdict": None
        if found is None
        else [found.payload, found.settings, dict(found.samples), found.fault],
    }
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + message.payload


def read_frame(frame: bytes) -> FromWorker | WorkerTurn:
    """Read what `frame_of` wrote; names and numbers are those that a worker has checked."""
    line, _, payload = frame.partition(b"\n")
    head = json.loads(line)
    if "away" in head:
        return WorkerTurn(head["away"])
    key, found = head["key"], head["verdict"]
    verdict = None
    if found is not None:
        digest, settings, samples, fault = found
        counts = {ClassName.known(name): count for name, count in samples.items()}
        verdict = PayloadVerdict(Digest.known(digest), Digest.known(settings), counts, fault)
    key = None if key is None else VerifyKey.known(key)
    return FromWorker(head["number"], head["topic"], payload, key, verdict)


def told(word: ToWorker) -> bytes:
    """Return the bytes that `read_told` reads."""
    match word:
        case Committed(numbers):
            said: dict[str, Any] = {"committed": list(numbers)}
        case DeviceKey(device, key):
            said = {"device": device, "key": key}
        case CheckedBy(method, lineage, settings):
            said = {"method": method, "lineage": lineage, "settings": settings}
    return json.dumps(said, separators=(",", ":")).encode()


def read_told(data: bytes) -> ToWorker:
    """Read what `told` wrote."""
    said = json.loads(data)
    if "committed" in said:
        return Committed(said["committed"])
    if "device" in said:
        return DeviceKey(DeviceId.known(said["device"]), VerifyKey.known(said["key"]))
    return CheckedBy(said["method"], Digest.known(said["lineage"]), said["settings"])
