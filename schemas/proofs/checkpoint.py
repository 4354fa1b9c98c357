r"""Checkpoints: size and root of the log, signed, as C2SP's tlog-checkpoint and signed-note say.

    fleetledger/<fleet>\n      the log's name, its origin
    <size>\n                   number of entries, decimal
    <root>\n                   base64
    \n
    — <name> <base64(key hash, 4 bytes || signature, 64 bytes)>\n      one line per signature

A witness may add lines of its own; who checks looks for the keys it knows.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass

from typing_extensions import Self

from fleetledger.runtime.errors import shorten
from fleetledger.schemas.ed25519 import SIGNATURE_BYTES
from fleetledger.schemas.errors import SignatureError
from fleetledger.schemas.keys import SigningKey, VerifyKey
from fleetledger.schemas.values import Digest, FleetId

MAX_NOTE_BYTES = 4096
_NO_DOMAIN = ""
"""A note is signed as it is: its first line names the log, and nothing else begins like it."""
_DASH = "— "


@dataclass(frozen=True)
class Checkpoint:
    """How many entries a fleet's log has, and the root over them."""

    fleet: FleetId
    size: int
    root: Digest

    @property
    def text(self) -> str:
        """What is signed."""
        root = base64.b64encode(bytes.fromhex(self.root)).decode("ascii")
        return f"{origin(self.fleet)}\n{self.size}\n{root}\n"

    def signed(self, *keys: SigningKey) -> str:
        """Return the note with a signature of each key."""
        lines = (_signature_line(key, self.text) for key in keys)
        return f"{self.text}\n{''.join(lines)}"

    @classmethod
    def read(cls, note: str, fleet: FleetId, keys: Iterable[VerifyKey]) -> Self:
        """Return the checkpoint of a note that at least one of `keys` signed.

        Raises `SignatureError` where none did, where a signature of one of them is wrong, for a
        log of another fleet, and for anything that is not such a note.
        """
        _check_text(note)
        text, blank, signatures = note.partition("\n\n")
        if not blank or not signatures.endswith("\n"):
            raise SignatureError(f"note: {shorten(note)} is none; fetch the checkpoint again")
        text += "\n"
        _check_signatures(text, signatures, tuple(keys))
        return cls._parsed(text, fleet)

    @classmethod
    def _parsed(cls, text: str, fleet: FleetId) -> Self:
        lines = text.split("\n")
        if lines[0] != origin(fleet) or len(lines) != 4:
            raise SignatureError(
                f"note: is about {shorten(lines[0])}, and this is {origin(fleet)!r}; "
                "it belongs to another log"
            )
        size, root = lines[1], _from_base64(lines[2])
        if not size.isascii() or not size.isdigit() or len(size) > 19 or str(int(size)) != size:
            raise SignatureError(f"note: the size {shorten(size)} is no number; fetch it again")
        if len(root) != 32:
            raise SignatureError(f"note: the root {shorten(lines[2])} has not 32 bytes")
        return cls(fleet, int(size), Digest(root.hex()))


def origin(fleet: FleetId) -> str:
    """Return the name of a fleet's log."""
    return f"fleetledger/{fleet}"


def _check_text(note: str) -> None:
    try:
        size = len(note.encode())
    except UnicodeEncodeError as error:
        raise SignatureError(f"note: {shorten(note)} is no text; fetch it again") from error
    if size > MAX_NOTE_BYTES:
        raise SignatureError(f"note: over {MAX_NOTE_BYTES} bytes; a checkpoint is shorter")


def _signature_line(key: SigningKey, text: str) -> str:
    signature = key.sign(_NO_DOMAIN, text.encode())
    blob = base64.b64encode(key.verify_key.key_hash + signature).decode("ascii")
    return f"{_DASH}{key.name} {blob}\n"


def _check_signatures(text: str, signatures: str, keys: tuple[VerifyKey, ...]) -> None:
    known = {(str(key.name), key.key_hash): key for key in keys}
    good = 0
    for line in signatures[:-1].split("\n"):
        name, space, encoded = line.removeprefix(_DASH).partition(" ")
        blob = _from_base64(encoded)
        if not line.startswith(_DASH) or not space or len(blob) < 5:
            raise SignatureError(f"note: {shorten(line)} is no line of a signature")
        key = known.get((name, blob[:4]))
        if key is None:
            continue  # a witness that this reader does not know
        if len(blob) != 4 + SIGNATURE_BYTES:
            raise SignatureError(f"note: the signature of {name!r} has {len(blob) - 4} bytes")
        key.check(blob[4:], _NO_DOMAIN, text.encode())
        good += 1
    if not good:
        asked = ", ".join(repr(str(key.name)) for key in keys) or "nobody"
        raise SignatureError(
            f"note: not signed by {asked}; it is not from this fleet's coordinator"
        )


def _from_base64(text: str) -> bytes:
    """Return what a text stands for; nothing where it is no base64, or not in its one spelling."""
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        return b""
    # The last letter may hold bits that mean nothing; only one spelling counts.
    return data if base64.b64encode(data).decode("ascii") == text else b""
