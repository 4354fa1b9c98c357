"""The frame around every message: one line of canonical JSON, then raw attached bytes.

The header holds everything that a reader needs, so MQTT 3.1.1 suffices. `message_id` is the
SHA-256 of the header line; the header pins the attachment by length and digest, so the id covers
all. Only the canonical line of a header is accepted: a message has one id, not one per spelling.

A signature is over the topic below the fleet's own, such as `up/crane-7/msg`, a line feed, and the
header line with a null in the signature's place; the message id is of that line too. So a message
that is signed is worth something on its own topic, in its own fleet, and nowhere else.

Size, digest and id are of the attachment as it is. Over a network it may travel as one zstd frame
where that is shorter (`compressed`): what is shorter than the header says, and begins as a frame,
is one, and must hold what the header pins.

A body is written in the version of the wire that its receiver speaks, and read into the form of the
models (`schemas.wire`). The header keeps the version of the line.

The laws: `decode(encode(envelope)) == envelope`, `decode(compressed(data)) == decode(data)`, and
`encode(decode(data)) == data` for all data that `decode` accepts, unless a frame is in them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from pydantic import Field, ValidationError

from fleetledger.runtime.errors import SchemaError, shorten
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.canonical import read_canonical, write_checked
from fleetledger.schemas.errors import EnvelopeError, FrameError
from fleetledger.schemas.keys import KeyHash, SignatureText, SigningKey, VerifyKey
from fleetledger.schemas.message import Message, explain
from fleetledger.schemas.seals import (
    DOMAIN,
    Seal,
    bytes_to_sign,
    read_seal,
    with_signature,
)
from fleetledger.schemas.topics import Topic
from fleetledger.schemas.values import BootId, DeviceId, Digest, FleetId, ValidatedText
from fleetledger.schemas.wire import MAX_VERSION, OWN, SETTLED_VERSION, WireVersions
from fleetledger.schemas.zstd_frames import MAGIC, framed, unframed

MAX_HEADER_BYTES = 128 * 1024
MAX_HEADER_VALUES = 1 << 14
"""Commas and brackets of a header line, which cost more to read than text: an evaluation of 4,000
classes, which fills the line, has 12,000 of them."""
MAX_ATTACHMENT_BYTES = 256 * 1024
MAX_ENVELOPE_BYTES = MAX_HEADER_BYTES + MAX_ATTACHMENT_BYTES + 1
INLINE_LIMIT = 64 * 1024
"""Payloads up to this many bytes are attached; larger ones are offered and fetched in blocks."""

_BODY = b'"body":'
_BEHIND_BODY = b',"boot":"'
_LEAST_FRAMED = 512
"""Bytes below which nobody tries to make them fewer."""

COORDINATOR = DeviceId("coordinator")
"""The coordinator's name as a sender; no device may be admitted under it."""
PROXY = DeviceId("proxy")
"""The proxy's, likewise."""
BodyType = TypeVar("BodyType", bound=Message)


class Header(Strict):
    """What the first line says."""

    version: int = Field(default=SETTLED_VERSION, ge=1, le=MAX_VERSION)
    """Version of the wire in which the body is written."""
    kind: str = Field(min_length=1, max_length=40)
    """Which message the body is."""
    fleet: FleetId
    """Name of the fleet, as in the topic."""
    sender: DeviceId
    """Device id, as in the topic, or `coordinator`."""
    boot: BootId
    """Random name of this run of the sender's program."""
    sequence: int = Field(ge=0, lt=2**63)
    """Counts the messages of this run."""
    sent_ms: int = Field(ge=0, lt=2**63)
    """Milliseconds since 1970 by the sender's clock; for people, never for decisions."""
    refers_to: Digest | None = None
    """Id of the message that this one answers, or null; of what a device says, the coordinator's
    birth that it heard last."""
    body: dict[str, Any]
    """The message itself."""
    attachment_size: int = Field(default=0, ge=0, le=MAX_ATTACHMENT_BYTES)
    """Bytes that are attached; fewer follow the header line where they travel as a zstd frame."""
    attachment_digest: Digest | None = None
    """SHA-256 of these bytes, null where there are none."""
    key: KeyHash | None = None
    """Names the key that signed, by the hash in its text; null where nobody signed."""
    signature: SignatureText | None = None
    """The sender's signature, base64 of 64 bytes; null where nobody signed."""


@dataclass(frozen=True)
class Envelope:
    """A message as it arrived or will be sent."""

    header: Header
    attachment: bytes = b""

    @cached_property
    def message_id(self) -> Digest:
        """SHA-256 of the header line without its signature; the same for every repeat."""
        return Digest.of(self.unsigned_line)

    @cached_property
    def line(self) -> bytes:
        """The header line."""
        return write_checked(self.header.model_dump(mode="json"))

    @cached_property
    def seal(self) -> Seal:
        """What the header line says after its body."""
        return read_seal(self.line)

    @property
    def unsigned_line(self) -> bytes:
        """The header line with a null in the signature's place."""
        return self.seal.unsigned_line

    def check_signature(self, key: VerifyKey, topic: str) -> None:
        """Raise `SignatureError` unless `key` signed this message for that topic.

        Raises `InvalidValueError` if the topic is one of another fleet than the header's.
        """
        self.seal.check_signature(key, topic)

    def read(self, model: type[BodyType]) -> BodyType:
        """Return the body as `model`; raise `SchemaError` if the kind or a field is wrong."""
        if self.header.kind != model.kind:
            raise SchemaError(
                f"kind: {self.header.kind!r} arrived where {model.kind!r} was expected; "
                "see docs/protocol for what each topic carries"
            )
        text = self._body_text
        if text is None:
            return model.read(self.header.body)
        return model.read_text(text, self.header.body)

    @cached_property
    def _body_text(self) -> bytes | None:
        """The body as the line has it; None where it may have been translated, or not arrived."""
        return None


@dataclass
class Sender:
    """Makes envelopes for one program run: fills in fleet, sender, boot and the next sequence.

    With a `signer` everything is signed by it, for the topic on which it will be sent.
    """

    fleet: FleetId
    name: DeviceId
    boot: BootId
    next_sequence: int = 0
    signer: SigningKey | None = None
    wire: WireVersions = OWN
    speaks: int | None = None
    """Version of the wire that was agreed; None for the highest that this program speaks."""

    def seal(
        self,
        body: Message,
        *,
        sent_ms: int,
        attachment: bytes = b"",
        refers_to: Digest | None = None,
        topic: Topic | None = None,
        version: int | None = None,
    ) -> Envelope:
        """Wrap `body` (and `attachment`, at most 256 KiB) for sending.

        `version` of the wire is that of the receiver; `speaks` if left out. Who has a signer must
        say on which `topic`; raises `EnvelopeError` otherwise.
        """
        if len(attachment) > MAX_ATTACHMENT_BYTES:
            raise EnvelopeError(
                f"attachment: {len(attachment)} bytes exceed {MAX_ATTACHMENT_BYTES}; "
                "offer it and let the receiver fetch blocks"
            )
        if self.signer is not None and topic is None:
            raise EnvelopeError(
                f"topic: {body.kind!r} is to be signed and goes nowhere; say on which topic"
            )
        values = self._values(body.kind, body.model_dump(mode="json"), sent_ms, version)
        values["refers_to"] = refers_to
        if attachment:
            values |= {
                "attachment_size": len(attachment),
                "attachment_digest": Digest.of(attachment),
            }
        line = self._line(values, topic)
        header = Header(**values)
        self.next_sequence += 1
        return _with_line(Envelope(header, attachment), line)

    def write(
        self,
        kind: str,
        body: dict[str, Any],
        *,
        topic: Topic,
        sent_ms: int,
        refers_to: Digest | None = None,
        version: int | None = None,
    ) -> bytes:
        """Return the bytes of a message without attachment, of a body as `model_dump` gives it.

        The law: they are what `encode(seal(...))` gives for the model. No header is made of them,
        which takes twice as long as the signature. Raises `EnvelopeError` if they are too many.
        """
        values = self._values(kind, body, sent_ms, version)
        values["refers_to"] = refers_to
        line = self._line(values, topic)
        self.next_sequence += 1
        return _bytes_of(kind, line, b"")

    def _values(
        self, kind: str, body: dict[str, Any], sent_ms: int, version: int | None
    ) -> dict[str, Any]:
        """Return what the next header says, without an attachment and before it is signed."""
        written = self.wire.version_of(kind, self.speaks if version is None else version)
        return {
            "version": written,
            "kind": kind,
            "fleet": self.fleet,
            "sender": self.name,
            "boot": self.boot,
            "sequence": self.next_sequence,
            "sent_ms": sent_ms,
            "refers_to": None,
            "body": self.wire.written(kind, body, written),
            "attachment_size": 0,
            "attachment_digest": None,
            "key": None if self.signer is None else self.signer.verify_key.short_name,
            "signature": None,
        }

    def _line(self, values: dict[str, Any], topic: Topic | None) -> bytes:
        """Return the header line; a signature becomes part of `values`, too."""
        line = write_checked(values)
        if self.signer is None or topic is None:
            return line
        signed = self.signer.sign(DOMAIN, bytes_to_sign(line, topic, self.fleet))
        values["signature"] = SignatureText.of(signed)
        return with_signature(line, values["signature"])


def encode(envelope: Envelope) -> bytes:
    """Return the bytes to publish; raise `EnvelopeError` if the header is too large."""
    return _bytes_of(envelope.header.kind, envelope.line, envelope.attachment)


def _bytes_of(kind: str, line: bytes, attachment: bytes) -> bytes:
    if len(line) > MAX_HEADER_BYTES:
        raise EnvelopeError(
            f"header: {len(line)} bytes of {kind!r} exceed {MAX_HEADER_BYTES}; "
            "send large data as an offer"
        )
    return line + b"\n" + attachment


def decode(data: bytes, longest: int = MAX_HEADER_BYTES, wire: WireVersions = OWN) -> Envelope:
    """Read published bytes; raise `EnvelopeError` for anything that is not a whole envelope.

    Who expects short headers says how long they are at most: what is longer is not read. The body
    is translated into the form of the models by the reader's `wire`.
    """
    line, rest = split(data, longest)
    header = _read_header(line)
    body = wire.read(header.kind, header.body, header.version)
    attachment = bytes(attached(rest, header.attachment_size))
    _check_attachment(header, attachment)
    if body is not header.body:
        header = header.model_copy(update={"body": body})
        return _with_line(Envelope(header, attachment), line)
    return _with_texts(Envelope(header, attachment), line)


def decode_again(data: bytes) -> Envelope:
    """Read an envelope that `decode` has accepted in another process of this program.

    Its attachment is as it is, out of its frame. Nothing is checked a second time, so what comes
    from elsewhere is for `decode`.
    """
    line, _, attachment = data.partition(b"\n")
    values = json.loads(line)
    for name, kind in _HEADER_TEXTS.items():
        if values[name] is not None:
            values[name] = kind.known(values[name])
    return _with_texts(Envelope(Header.of_known(**values), attachment), line)


_HEADER_TEXTS: Mapping[str, type[ValidatedText]] = {
    "fleet": FleetId,
    "sender": DeviceId,
    "boot": BootId,
    "refers_to": Digest,
    "attachment_digest": Digest,
    "key": KeyHash,
    "signature": SignatureText,
}


def split(data: bytes, longest: int = MAX_HEADER_BYTES) -> tuple[bytes, bytes]:
    """Return header line and attachment of published bytes; raise `EnvelopeError` for others.

    Nothing of them is read.
    """
    if len(data) > MAX_ENVELOPE_BYTES:
        raise EnvelopeError(f"envelope: {len(data)} bytes exceed {MAX_ENVELOPE_BYTES}; send blocks")
    line, newline, attachment = data.partition(b"\n")
    if not newline:
        raise EnvelopeError(
            f"envelope: no line ends within {len(data)} bytes; "
            "expected a header line of JSON, then the attachment"
        )
    if len(line) > longest:
        raise EnvelopeError(
            f"header: {len(line)} bytes exceed {longest}; send large data as an offer"
        )
    return line, attachment


def compressed(data: bytes) -> bytes:
    """Return an envelope's bytes with a zstd frame for the attachment, where that is shorter."""
    start = data.find(b"\n") + 1
    if len(data) - start < _LEAST_FRAMED or not start:
        return data
    frame = framed(memoryview(data)[start:])
    return data if frame is None else data[:start] + frame


def attached(rest: bytes | memoryview, size: int) -> bytes | memoryview:
    """Return what is attached, of so many bytes, from what came after the header line.

    Raises `EnvelopeError` for a frame of more, or one that is not whole.
    """
    if len(rest) >= size or rest[: len(MAGIC)] != MAGIC:
        return rest
    try:
        return unframed(rest, size)
    except FrameError as error:
        raise EnvelopeError(f"attachment: {error}") from error


def _check_attachment(header: Header, attachment: bytes) -> None:
    if len(attachment) != header.attachment_size:
        raise EnvelopeError(
            f"attachment_size: header says {header.attachment_size}, {len(attachment)} arrived; "
            "the message was cut on its way and will be sent again"
        )
    expected = Digest.of(attachment) if attachment else None
    if header.attachment_digest != expected:
        raise EnvelopeError(
            f"attachment_digest: header says {shorten(header.attachment_digest)}, the attached "
            f"bytes have {shorten(expected)}; the message was altered on its way: send it again"
        )


def _with_line(envelope: Envelope, line: bytes) -> Envelope:
    """Note the header line where it is known already: to write it takes longer than to sign it."""
    envelope.__dict__["line"] = line
    return envelope


def _with_texts(envelope: Envelope, line: bytes) -> Envelope:
    """Note the header line and its body, which reads as the models' version of the wire has it."""
    # Before the body are two values without such a text in them, and behind it comes the last boot.
    begin, end = line.index(_BODY) + len(_BODY), line.rindex(_BEHIND_BODY)
    envelope.__dict__["_body_text"] = line[begin:end]
    return _with_line(envelope, line)


def _read_header(line: bytes) -> Header:
    try:
        values, canonical = read_canonical(line, MAX_HEADER_VALUES)
    except SchemaError as error:
        raise EnvelopeError(f"header: {error}") from error
    try:
        header = Header.model_validate(values, strict=True)
    except ValidationError as error:
        raise EnvelopeError(f"header: {explain(error)}") from error
    # Nothing is converted, so what was parsed is what a header would be written from.
    whole = values.keys() == Header.model_fields.keys()
    if not whole or not canonical:
        raise EnvelopeError(
            "header: the line is not canonical JSON of all header fields; "
            "sort the keys, leave out spaces, write every field and no escapes"
        )
    if (header.key is None) != (header.signature is None):
        raise EnvelopeError(
            f"signature: {shorten(header.signature)} by the key {shorten(header.key)}; "
            "give both or neither"
        )
    return header
