"""Releases: the word of a release key that devices may install one manifest.

A release has a number that grows with every one that the fleet makes, so that a device knows the
older of two, and going back to an old model is a new number that names the old manifest. The rules
that `check_release` holds a release to:

- **Signed** by a key that the root names for releases, over the release's canonical bytes.
- **This fleet, this device.** It names the fleet, and either no device or this one too.
- **In time.** Neither the release nor the root has expired.

That numbers only grow is for whoever remembers the highest: see `device_agent.core.releases`.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field
from typing_extensions import Self

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.errors import ReleaseError, SignatureError
from fleetledger.schemas.keys import SigningKey, VerifyKey
from fleetledger.schemas.message import is_absent
from fleetledger.schemas.rollouts import Share
from fleetledger.schemas.roots import RootDocument, named_keys
from fleetledger.schemas.signatures import KeySignature, name_of, signers
from fleetledger.schemas.values import DeviceId, Digest, FleetId

DOMAIN = "fleetledger/release/1"
MAX_NAMED_DEVICES = 1000
"""Devices that one release may name; a release for all names none."""


class Release(Strict):
    """What may be installed, and where."""

    fleet: FleetId
    number: int = Field(ge=1, lt=2**63)
    """Grows by at least one with each release of the fleet."""
    manifest: Digest
    """Pins the model: the manifest has digest and size of every file."""
    version: int = Field(ge=1, lt=2**31)
    """The model's version, as its manifest says it."""
    expires_ns: int | None = Field(default=None, ge=0, lt=2**63)
    """Nanoseconds since 1970 from which it is not installed any more; None for never."""
    devices: tuple[DeviceId, ...] | None = Field(
        default=None, min_length=1, max_length=MAX_NAMED_DEVICES
    )
    """The devices that may install it; None for all of the fleet."""
    share: Share | None = Field(default=None, exclude_if=is_absent)
    """The devices that may install it, by their places; None for all that `devices` lets."""

    def canonical_bytes(self) -> bytes:
        """Return what is signed."""
        return canonical_json(self.model_dump(mode="json"))

    @property
    def digest(self) -> Digest:
        """SHA-256 of what is signed."""
        return Digest.of(self.canonical_bytes())


class SignedRelease(Strict):
    """A release with the signature of a release key."""

    release: Release
    signature: KeySignature

    @classmethod
    def of(cls, release: Release, key: SigningKey) -> Self:
        """Sign a release."""
        data = release.canonical_bytes()
        return cls(release=release, signature=KeySignature.of(key, DOMAIN, data))

    def may_be_signed_by(self, keys: Iterable[VerifyKey]) -> bool:
        """Whether it names one of these keys as the one that signed it."""
        return self.signature.key in {name_of(key) for key in keys}


def check_release(signed: SignedRelease, root: RootDocument, device: DeviceId, now_ns: int) -> None:
    """Raise unless `device` may install it now, going by the fleet's root.

    Raises `SignatureError` for a signature that is wrong or of another key, and `ReleaseError` for
    another fleet or device, and for what has expired.
    """
    check_signature(signed, root)
    release = signed.release
    if release.fleet != root.fleet:
        raise ReleaseError(
            f"release {release.number}: is for the fleet {str(release.fleet)!r}, and this is "
            f"{str(root.fleet)!r}"
        )
    if release.devices is not None and device not in release.devices:
        raise ReleaseError(f"release {release.number}: is for other devices than {device}")
    if release.share is not None and not release.share.has(device):
        raise ReleaseError(
            f"release {release.number}: is for a share of the devices, and {device} is not in it"
        )
    root.check_not_expired(now_ns)
    if release.expires_ns is not None and now_ns >= release.expires_ns:
        raise ReleaseError(
            f"release {release.number}: has expired; push the model again, and compare this "
            "device's clock"
        )


def check_signature(signed: SignedRelease, root: RootDocument) -> None:
    """Raise `SignatureError` unless a release key of the root signed it."""
    data = signed.release.canonical_bytes()
    if not signers((signed.signature,), root.release_keys, DOMAIN, data):
        raise SignatureError(
            f"release {signed.release.number}: signed by the key {signed.signature.key}, which "
            f"root version {root.version} does not name for releases, or no longer: "
            f"{named_keys(root.release_keys)}"
        )
