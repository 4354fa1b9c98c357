"""The root document: which keys a fleet believes, and how one document follows another.

The rules:

- **Threshold.** A document counts with signatures by `threshold` of its own root keys.
- **Succession.** Version N + 1 also needs the threshold of version N's root keys, by its own
  number; no version is left out, so whoever was away follows the chain.
- **One key, one role.** No key stands in a document twice, under any name.

The law: `SignedRoot.read(root.canonical_bytes()) == root`, and no other bytes are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field, ValidationError, model_validator
from typing_extensions import Self

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.canonical import canonical_json, parse_json
from fleetledger.schemas.errors import ReleaseError, SignatureError
from fleetledger.schemas.keys import SigningKey, VerifyKey
from fleetledger.schemas.message import Items, explain, is_absent
from fleetledger.schemas.signatures import KeySignature, name_of, signers
from fleetledger.schemas.values import Digest, FleetId

DOMAIN = "fleetledger/root/1"
MAX_KEYS = 8
"""Keys of one role; with `MAX_ROOTS` it keeps a whole chain below the limit of a message."""
MAX_ROOTS = 12
"""Documents told at once: a device that was away for more changes is given a root by its owner."""
MAX_ROOT_BYTES = 16 * 1024


class RootDocument(Strict):
    """Which keys may sign what, in one fleet."""

    fleet: FleetId
    version: int = Field(ge=1, lt=2**31)
    root_keys: Items[VerifyKey] = Field(min_length=1, max_length=MAX_KEYS)
    """Who may say which keys follow; kept offline."""
    threshold: int = Field(ge=1, le=MAX_KEYS)
    """Root keys that must agree."""
    release_keys: Items[VerifyKey] = Field(min_length=1, max_length=MAX_KEYS)
    """Who may say which models devices install; any one of them."""
    coordinator_keys: Items[VerifyKey] = Field(default=(), max_length=MAX_KEYS)
    """Who may sign receipts and checkpoints of the ledger."""
    devices: Digest | None = Field(default=None, exclude_if=is_absent)
    """The roster (`schemas.cohorts`) of devices that count as such in masked cohorts."""
    expires_ns: int | None = Field(default=None, ge=0, lt=2**63)
    """Nanoseconds since 1970 from which nothing new is installed by it; None for never."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.threshold > len(self.root_keys):
            raise ValueError(
                f"threshold: {self.threshold} of {len(self.root_keys)} root keys cannot agree; "
                "give more keys or a lower threshold"
            )
        if len({key.public for key in self.keys}) < len(self.keys):
            raise ValueError("root_keys: a key stands in the document twice; each has one role")
        if len({name_of(key) for key in self.keys}) < len(self.keys):
            raise ValueError("root_keys: two keys have one hash; make one of them anew")
        return self

    @property
    def keys(self) -> tuple[VerifyKey, ...]:
        """Every key that it names."""
        return (*self.root_keys, *self.release_keys, *self.coordinator_keys)

    def canonical_bytes(self) -> bytes:
        """Return what is signed."""
        return canonical_json(self.model_dump(mode="json"))

    @property
    def digest(self) -> Digest:
        """SHA-256 of what is signed."""
        return Digest.of(self.canonical_bytes())

    def check_not_expired(self, now_ns: int) -> None:
        """Raise `ReleaseError` once it has expired."""
        if self.expires_ns is not None and now_ns >= self.expires_ns:
            raise ReleaseError(
                f"root: version {self.version} has expired; publish the next one with "
                "`fleetledger trust rotate`"
            )


class SignedRoot(Strict):
    """A root document with signatures, perhaps not enough of them yet."""

    document: RootDocument
    signatures: Items[KeySignature] = Field(default=(), max_length=2 * MAX_KEYS)

    def signed_by(self, key: SigningKey) -> Self:
        """Return it with a signature of `key`, in place of an earlier one of the same key."""
        mine = KeySignature.of(key, DOMAIN, self.document.canonical_bytes())
        others = tuple(item for item in self.signatures if item.key != mine.key)
        return self.model_copy(update={"signatures": (*others, mine)})

    def canonical_bytes(self) -> bytes:
        """Return the one byte string of document and signatures."""
        return canonical_json(self.model_dump(mode="json"))

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Read canonical bytes, a newline behind them or not; raise `SchemaError` otherwise."""
        data = data.removesuffix(b"\n")
        if len(data) > MAX_ROOT_BYTES:
            raise SchemaError(f"root: {len(data)} bytes exceed {MAX_ROOT_BYTES}; it is no root")
        try:
            root = cls.model_validate_json(canonical_json(parse_json(data)), strict=True)
        except ValidationError as error:
            raise SchemaError(f"root: {explain(error)}") from error
        if root.canonical_bytes() != data:
            raise SchemaError("root: not in canonical form; take the file as it was written")
        return root

    def missing(self, former: RootDocument | None = None) -> int:
        """Return how many signatures it lacks, after `former` where there is one.

        Raises `SignatureError` for a wrong signature.
        """
        needed = (self.document,) if former is None else (former, self.document)
        return max(self._lacks(document) for document in needed)

    def check(self, fleet: FleetId, former: RootDocument | None = None) -> None:
        """Raise unless it is this fleet's root, and the next one after `former`.

        Raises `ReleaseError` for another fleet or version, and `SignatureError` where too few root
        keys signed, or one of them wrongly.
        """
        document = self.document
        if document.fleet != fleet:
            raise ReleaseError(
                f"root: is of the fleet {str(document.fleet)!r}, and this is {str(fleet)!r}"
            )
        if former is not None and document.version != former.version + 1:
            raise ReleaseError(
                f"root: version {document.version} does not follow version {former.version}"
            )
        self._check_threshold(document)
        if former is not None:
            self._check_threshold(former)

    def _check_threshold(self, by: RootDocument) -> None:
        lacking = self._lacks(by)
        if lacking > 0:
            raise SignatureError(
                f"root: version {self.document.version} has {by.threshold - lacking} of the "
                f"{count_of(by.threshold, 'signature')} that version {by.version} asks of its root "
                "keys"
            )

    def _lacks(self, by: RootDocument) -> int:
        data = self.document.canonical_bytes()
        return max(0, by.threshold - len(signers(self.signatures, by.root_keys, DOMAIN, data)))


def follow(known: SignedRoot, offered: Sequence[SignedRoot]) -> SignedRoot:
    """Return the newest root that follows from `known`, by the documents offered, oldest first.

    Raises `ReleaseError` where they end before `known` or are not of its history, and
    `SignatureError` where signatures are wrong or too few.
    """
    fleet = known.document.fleet
    for item in offered:
        if item.document.version < known.document.version:
            continue
        if item.document.version == known.document.version:
            _check_same(known.document, item.document)
            continue
        item.check(fleet, known.document)
        known = item
    if offered and offered[-1].document.version < known.document.version:
        raise ReleaseError(
            f"root: version {offered[-1].document.version} is offered, and version "
            f"{known.document.version} is known here"
        )
    return known


def _check_same(known: RootDocument, offered: RootDocument) -> None:
    if known != offered:
        raise ReleaseError(
            f"root: version {known.version} is {known.digest.short} here, and "
            f"{offered.digest.short} is offered; one of them is not this fleet's"
        )


def named_keys(keys: Iterable[VerifyKey]) -> str:
    """Return keys in words: name and hash of each."""
    return ", ".join(map(named_key, keys)) or "none"


def named_key(key: VerifyKey) -> str:
    """Return a key in words: its name and hash."""
    return f"{key.name} {name_of(key)}"
