"""What an attack is, and the pieces that attacks are put together from."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from fleetledger.schemas.keys import KeyName, SigningKey, VerifyKey
from fleetledger.schemas.offers import BlockData, Offer
from fleetledger.schemas.releases import SignedRelease
from fleetledger.schemas.roots import RootDocument, SignedRoot
from fleetledger.schemas.signatures import KeySignature
from fleetledger.schemas.values import Digest
from tests.attacks.target import (
    KEY,
    ROOTS,
    Attack,
    Target,
    desired,
    files_of,
    manifest_of,
    model,
    release,
)
from tests.schemas import signing
from tests.schemas.signing import STRANGER

Role = Literal["release key", "root", "coordinator", "device"]
Fetches = Literal["nothing", "manifest", "files"]
ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of Ed25519's group."""
DAY = 86_400 * 10**9
OTHER_DEVICE = SigningKey.fresh(KeyName("orchard/dev-2"))
THIEVES = tuple(signing.key("root") for _ in range(3))


@dataclass(frozen=True)
class Case:
    """One attack: `says` is in the refusal, `fetches` is the most that may be fetched."""

    line: str
    role: Role
    attack: Callable[[], Attack]
    says: str
    fetches: Fetches = "nothing"


def sends(signed: SignedRelease | None, version: int = 3, **changes: Any) -> Attack:
    """Send a version with a release, and serve all its files."""
    return Attack(desired(signed, version, **changes), files_of(version))


def misnamed(signed: SignedRelease) -> Attack:
    """Send model 3 as if it were version 4."""
    return Attack(desired(signed, 3).model_copy(update={"version": 4}), files_of(3))


def signature(text: str) -> Attack:
    """Send model 3 with another signature text."""
    good = release(6, 3)
    return sends(with_signature(good, good.signature.model_copy(update={"signature": text})))


def with_signature(signed: SignedRelease, given: KeySignature) -> SignedRelease:
    return signed.model_copy(update={"signature": given})


def good_text() -> str:
    return release(6, 3).signature.signature


def good_raw() -> bytes:
    return base64.b64decode(good_text())


def text_of(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def altered(signed: SignedRelease | None = None, **changes: Any) -> SignedRelease:
    """Change what was signed, and keep the signature."""
    signed = signed or release(6, 3)
    fields = signed.release.model_dump() | changes
    return signed.model_copy(update={"release": type(signed.release).model_validate(fields)})


def for_purpose(domain: str) -> Attack:
    good = release(6, 3)
    return sends(with_signature(good, KeySignature.of(KEY, domain, good.release.canonical_bytes())))


def unreadable(*path: str | int, value: Any) -> Attack:
    """Send model 3 with one field of the JSON replaced."""
    body = desired(release(6, 3), 3).model_dump(mode="json")
    place: Any = body
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return Attack(body, files_of(3))


def next_root(by: tuple[SigningKey, ...], version: int = 3, **changes: Any) -> SignedRoot:
    return signing.root(version, by, **changes)


def thieves_root(by: tuple[SigningKey, ...]) -> Attack:
    """Send a root that names the thief's keys for everything, and a release by them."""
    publics = tuple(item.verify_key for item in THIEVES)
    taken = {"root_keys": publics, "threshold": 1, "release_keys": (STRANGER.verify_key,)}
    root = next_root(by, **taken)
    return sends(release(6, 3, by=STRANGER), roots=(*ROOTS, root))


def files(*changed: Offer) -> Attack:
    """Send model 3 as it was released, with other files offered."""
    return sends(release(6, 3), files=changed)


def offers(version: int = 3) -> tuple[Offer, ...]:
    return desired(None, version).files


def head(version: int) -> Digest:
    return manifest_of(version).head.digest


def without(digest: Digest) -> tuple[Offer, ...]:
    return tuple(item for item in offers() if item.digest != digest)


def resized(size: int) -> tuple[Offer, ...]:
    """Offer the head of model 3 with another size."""
    return tuple(
        item.model_copy(update={"size": size}) if item.digest == head(3) else item
        for item in offers()
    )


def serves_in_place_of(digest: Digest, data: bytes) -> Attack:
    """Serve other bytes of the same length under a digest that was released."""
    attack = sends(release(6, 3))
    attack.served.pop(digest)
    label = BlockData(digest=digest, section="data", index=0)
    listed = BlockData(digest=digest, section="list", index=0)
    attack.blocks[digest] = [(listed, bytes.fromhex(Digest.of(data))), (label, data)]
    return attack


def endless_blocks(digest: Digest) -> Attack:
    """Answer with blocks that are longer than they may be, or behind the end."""
    attack = sends(release(6, 3))
    attack.served.pop(digest)
    attack.blocks[digest] = [
        (BlockData(digest=digest, section=section, index=index), b"\x00" * size)
        for section in ("list", "data")
        for index in (0, 1, 131_071)
        for size in (32, 65_536, 262_144)
    ]
    return attack


def manifest_offer(size: int) -> Attack:
    """Offer the released manifest with another size."""
    body = desired(release(6, 3), 3)
    return sends(release(6, 3), manifest=body.manifest.model_copy(update={"size": size}))


def spoiled(target: Target) -> None:
    """Replace a file on the device's disk, after it was fetched."""
    target.blobs.path(head(3)).write_bytes(model(1).files[head(1)])


def spoils() -> Attack:
    attack = sends(release(6, 3))
    attack.spoil = spoiled
    return attack


def released_by_manifest_of(version: int) -> Attack:
    """Send the files of one version under the released manifest of another one."""
    return Attack(desired(release(6, 3), 3, files=offers(version)), files_of(3) | files_of(version))


def renamed(key: VerifyKey, role: str) -> VerifyKey:
    return VerifyKey.of(KeyName(f"orchard/{role}"), key.public)


def contradicting() -> RootDocument:
    return signing.document(2, release_keys=(STRANGER.verify_key,))
