"""Who an envelope says has sent it, read from the end of its header line and never from its body.

The keys of a header are sorted, so all that follows the body has one form and a bounded length.
Who gets many messages can tell from it, for the price of a signature, whether a message can be what
it says, before the bytes in front of it become objects.

What has no such end is no canonical header line, so nothing is refused here that
`schemas.envelope.decode` would accept. What has one is not yet read: `decode` says what it is.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from fleetledger.runtime.errors import shorten
from fleetledger.schemas.errors import EnvelopeError, SignatureError
from fleetledger.schemas.keys import KeyHash, SignatureText, VerifyKey
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, Digest, FleetId

DOMAIN = "fleetledger/envelope/1"
"""What signatures of envelopes are for, see `schemas.keys`."""

_LONGEST = 1024
"""Bytes after the body; the longest that can be are some 700."""
_NUMBER = "(?:0|[1-9][0-9]{0,18})"
_END = re.compile(
    (
        f',"boot":"(?P<boot>{BootId.pattern.pattern})"'
        f',"fleet":"(?P<fleet>{FleetId.pattern.pattern})"'
        f',"key":(?:null|"(?P<key>{KeyHash.pattern.pattern})")'
        r',"kind":(?P<kind>"(?:[^"\\]|\\.){1,240}")'
        f',"refers_to":(?:null|"(?P<refers_to>{Digest.pattern.pattern})")'
        f',"sender":"(?P<sender>{DeviceId.pattern.pattern})"'
        f',"sent_ms":{_NUMBER},"sequence":(?P<sequence>{_NUMBER})'
        f',"signature":(?P<signature>null|"{SignatureText.pattern.pattern}")'
        r',"version":[1-9][0-9]{0,2}}\Z'
    ).encode()
)
_BEHIND_SIGNATURE = re.compile(rb',"version":[1-9][0-9]{0,2}}\Z')


@dataclass(frozen=True)
class Seal:
    """What a header says after its body; `line` is the whole of it."""

    line: bytes
    kind: str
    fleet: FleetId
    sender: DeviceId
    boot: BootId
    sequence: int
    refers_to: Digest | None
    key: KeyHash | None
    signature: SignatureText | None
    place: slice
    """Where in the line the signature stands, or a null."""

    @property
    def unsigned_line(self) -> bytes:
        """The header line with a null in the signature's place."""
        if self.signature is None:
            return self.line
        return self.line[: self.place.start] + b"null" + self.line[self.place.stop :]

    def signed_bytes(self, topic: str) -> bytes:
        """Return what is signed; raise `InvalidValueError` for a topic of another fleet."""
        return bytes_to_sign(self.unsigned_line, topic, self.fleet)

    def check_signature(self, key: VerifyKey, topic: str) -> None:
        """Raise `SignatureError` unless `key` signed the message for that topic.

        Raises `InvalidValueError` if the topic is one of another fleet than the header's.
        """
        if self.key is None or self.signature is None:
            raise SignatureError(
                f"signature: {self.kind!r} on {topic} is not signed; only what {key.name!r} "
                "has signed is believed there"
            )
        if self.key != key.short_name:
            raise SignatureError(
                f"key: {str(self.key)!r} signed {self.kind!r} on {topic}; only the key "
                f"{str(key.short_name)!r} of {key.name!r} is believed there"
            )
        key.check(self.signature.raw, DOMAIN, self.signed_bytes(topic))


def bytes_to_sign(unsigned_line: bytes, topic: str, fleet: FleetId) -> bytes:
    """Return what the sender of a header line signs, which has a null in the signature's place.

    Raises `InvalidValueError` for a topic of another fleet.
    """
    return f"{FleetTopics(fleet).below(topic)}\n".encode() + unsigned_line


def with_signature(unsigned_line: bytes, signature: SignatureText) -> bytes:
    """Return a header line with its signature, in the place of a null that this program wrote."""
    before, _null, end = unsigned_line.rpartition(b"null")
    assert _BEHIND_SIGNATURE.match(end), "a header line ends with signature and version"
    return b'%s"%s"%s' % (before, signature.encode(), end)


def read_seal(line: bytes) -> Seal:
    """Return what a header line says after its body; raise `EnvelopeError` where it cannot be one.

    The time does not grow with the line.
    """
    end = line[-_LONGEST:]
    found = _END.search(end)
    if found is None:
        raise EnvelopeError(
            "header: the line does not end as one of canonical JSON with all header fields does; "
            "sort the keys, leave out spaces, write every field and no escapes"
        )
    text = {
        name: None if value is None else value.decode()
        for name, value in found.groupdict().items()
        if name != "kind"
    }
    key, refers_to, signature = text["key"], text["refers_to"], str(text["signature"])
    before = len(line) - len(end)
    return Seal(
        line=line,
        kind=_kind(found["kind"]),
        fleet=FleetId.known(str(text["fleet"])),
        sender=DeviceId.known(str(text["sender"])),
        boot=BootId.known(str(text["boot"])),
        sequence=int(found["sequence"]),
        refers_to=None if refers_to is None else Digest.known(refers_to),
        key=None if key is None else KeyHash.known(key),
        signature=None if signature == "null" else SignatureText.known(signature[1:-1]),
        place=slice(before + found.start("signature"), before + found.end("signature")),
    )


def _kind(written: bytes) -> str:
    try:
        return str(json.loads(written))
    except ValueError as error:
        raise EnvelopeError(f"kind: {shorten(written)} is no text of JSON: {error}") from error
