"""Keys, roots and releases for tests, with as few words as possible."""

from __future__ import annotations

from typing import Any

from fleetledger.schemas.keys import KeyName, SigningKey
from fleetledger.schemas.releases import Release, SignedRelease
from fleetledger.schemas.roots import RootDocument, SignedRoot
from fleetledger.schemas.values import Digest, FleetId

FLEET = FleetId("orchard")


def key(role: str, fleet: str = FLEET) -> SigningKey:
    return SigningKey.fresh(KeyName(f"{fleet}/{role}"))


ROOTS = tuple(key("root") for _ in range(3))
RELEASE = key("release")
SPARE = key("release")
COORDINATOR = key("coordinator")
STRANGER = key("release")


def document(version: int = 1, **changes: Any) -> RootDocument:
    """Version 1 of a root with a threshold of two of three, unless something is changed."""
    values: dict[str, Any] = {
        "fleet": FLEET,
        "version": version,
        "root_keys": tuple(item.verify_key for item in ROOTS),
        "threshold": 2,
        "release_keys": (RELEASE.verify_key,),
        "coordinator_keys": (COORDINATOR.verify_key,),
    }
    return RootDocument.model_validate(values | changes)


def root(version: int = 1, by: tuple[SigningKey, ...] = ROOTS[:2], **changes: Any) -> SignedRoot:
    signed = SignedRoot(document=document(version, **changes))
    for item in by:
        signed = signed.signed_by(item)
    return signed


def release(number: int = 1, by: SigningKey = RELEASE, **changes: Any) -> SignedRelease:
    values: dict[str, Any] = {
        "fleet": FLEET,
        "number": number,
        "manifest": Digest.of(b"manifest"),
        "version": 1,
    }
    return SignedRelease.of(Release.model_validate(values | changes), by)
