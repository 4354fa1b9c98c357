"""Root documents before they are published: made, changed and signed, in files.

A draft is the root document's own file with too few signatures, to be carried to where the root
keys are. Nothing in it is secret.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fleetledger.coordinator.errors import TrustError
from fleetledger.coordinator.trust.key_files import read_key
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.whole_file import write_whole
from fleetledger.schemas import roots
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.message import explain
from fleetledger.schemas.signatures import name_of
from fleetledger.schemas.values import Digest, FleetId

FOLDER = "trust"
"""Where the root documents of a coordinator lie, in its home."""
DAY_NS = 86_400 * 1_000_000_000


@dataclass(frozen=True)
class Changes:
    """What the next root has otherwise; None for what stays."""

    root_keys: tuple[VerifyKey, ...] | None = None
    threshold: int | None = None
    release_keys: tuple[VerifyKey, ...] | None = None
    coordinator_keys: tuple[VerifyKey, ...] | None = None
    devices: Digest | None = None
    expires_ns: int | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The fields that are to be otherwise."""
        return {name: value for name, value in vars(self).items() if value is not None}


def first_root(fleet: FleetId, changes: Changes, version: int = 1) -> roots.SignedRoot:
    """Return a root that follows none, unsigned; raise `TrustError` for keys that make none."""
    return _draft({"fleet": fleet, "version": version, **changes.given})


def next_root(former: roots.RootDocument, changes: Changes) -> roots.SignedRoot:
    """Return the version after `former`, unsigned; raise `TrustError` as `first_root` does."""
    same = former.model_dump() | {"version": former.version + 1}
    return _draft(same | changes.given)


def without_key(former: roots.RootDocument, named: str) -> Changes:
    """Return what changes when a key is taken out, which is named by its hash or in full.

    Raises `TrustError` where there is no such key, or no other of its role.
    """
    for role in ("root_keys", "release_keys", "coordinator_keys"):
        keys: tuple[VerifyKey, ...] = getattr(former, role)
        left = tuple(key for key in keys if named not in (key, name_of(key)))
        if len(left) == len(keys):
            continue
        if role == "release_keys" and not left:
            raise TrustError(
                f"key: {named} is the only release key; give the fleet another one in its place "
                "with `fleetledger trust rotate --release-key FILE`"
            )
        if role == "root_keys" and len(left) < former.threshold:
            raise TrustError(
                f"key: without {named} there are {count_of(len(left), 'root key')} for a threshold "
                f"of {former.threshold}; name the root keys anew with `fleetledger trust rotate "
                "--root-key FILE`"
            )
        changes: dict[str, Any] = {role: left}
        return Changes(**changes)
    raise TrustError(
        f"key: {named} is none of root version {former.version}: {roots.named_keys(former.keys)}"
    )


def sign_with(root: roots.SignedRoot, files: Iterable[Path]) -> roots.SignedRoot:
    """Return a draft with the signatures of private keys in files; raise `KeyFileError`."""
    for file in files:
        root = root.signed_by(read_key(file))
    return root


def read_root(file: Path) -> roots.SignedRoot:
    """Read a root document or a draft; raise `TrustError` that names the file."""
    try:
        return roots.SignedRoot.read(file.read_bytes())
    except OSError as error:
        raise TrustError(f"{file}: cannot be read: {error.strerror}") from error
    except SchemaError as error:
        raise TrustError(f"{file}: {error}") from error


def write_root(file: Path, root: roots.SignedRoot) -> Path:
    """Write a root document or a draft; raise `TrustError` that names the file."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, root.canonical_bytes() + b"\n")
    except OSError as error:
        raise TrustError(f"{file}: cannot be written: {error.strerror}") from error
    return file


def root_file(home: Path, root: roots.SignedRoot) -> Path:
    """Return where a root document of a coordinator lies."""
    return home / FOLDER / f"root-{root.document.version}.json"


def described(root: roots.SignedRoot, former: roots.RootDocument | None) -> dict[str, object]:
    """Return what a root says, as fields of a report; `former` is the one that it is to follow."""
    document = root.document
    return {
        "fleet": str(document.fleet),
        "version": document.version,
        "digest": str(document.digest),
        "root_keys": tuple(map(roots.named_key, document.root_keys)),
        "threshold": document.threshold,
        "release_keys": tuple(map(roots.named_key, document.release_keys)),
        "coordinator_keys": tuple(map(roots.named_key, document.coordinator_keys)),
        "devices": document.devices,
        "expires": document.expires_ns,
        "signed_by": tuple(str(item.key) for item in root.signatures),
        "missing": root.missing(former),
    }


def _draft(fields: dict[str, Any]) -> roots.SignedRoot:
    try:
        return roots.SignedRoot(document=roots.RootDocument.model_validate(fields))
    except ValidationError as error:
        raise TrustError(f"root: {explain(error)}") from error
