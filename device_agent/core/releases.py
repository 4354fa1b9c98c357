"""Rules of releases: what a device believes that was given its fleet's root.

Such a device does nothing about a desired model before all of this holds, fetches nothing, and
looks again before it switches:

- **The root first.** Documents that follow from the root that is known here are taken one after
  the other, whatever comes of the release; one of a lower version, or of another history, is not.
- **A release**, signed by a key that this root names, for this fleet and this device, and neither
  it nor the root expired (`schemas.releases`), by this device's clock or, where that is later, by
  the latest time that the coordinator has signed.
- **Numbers only grow.** It is not below the highest number that was taken here; at that number it
  is the same release. What was taken from keys that the root no longer names does not count, so
  that nobody with such a key can have shut out all later releases.
- **The release names the manifest** that is offered, by digest and version.
- **The manifest names the files**: those that are offered, with their sizes, and no others. So they
  are fetched after it was read, and never more bytes than it says.

A release is taken down with the desired model, before anything is fetched; the one that runs with
the report of its installation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.changes import Change, Durable
from fleetledger.device_agent.core.draft import Draft
from fleetledger.device_agent.core.records import Height
from fleetledger.device_agent.core.state import AgentRecords, AgentState
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.errors import ReleaseError
from fleetledger.schemas.models import MAX_MANIFEST_BYTES, DesiredModel, Manifest
from fleetledger.schemas.releases import Release, SignedRelease, check_release
from fleetledger.schemas.roots import RootDocument, SignedRoot, follow
from fleetledger.schemas.signatures import name_of
from fleetledger.schemas.values import DeviceId


@dataclass(frozen=True)
class ReleaseCheck:
    """All by which this device judges a release; whoever switches judges by it once more."""

    device: DeviceId
    root: RootDocument
    heights: Mapping[str, Height]
    floor_ns: int = 0
    """The latest time that the coordinator has signed; it is not earlier than that."""

    def check(self, desired: DesiredModel, now_ns: int) -> SignedRelease:
        """Return the release of a desired model; raise `SchemaError` where nothing may be done.

        `now_ns` is this device's own clock; it may have been set back.
        """
        signed = desired.release
        if signed is None:
            raise ReleaseError(
                "release: there is none; this device has a root, and installs what a release key "
                "has signed"
            )
        self._check_in_time(signed, now_ns)
        self._check_highest(signed.release)
        _check_names(signed.release, desired)
        return signed

    def with_taken(self, signed: SignedRelease) -> dict[str, Height]:
        """Return the highest numbers after a release was taken."""
        taken = Height(signed.release.number, signed.release.digest)
        return {**self.heights, signed.signature.key: taken}

    def _check_in_time(self, signed: SignedRelease, now_ns: int) -> None:
        try:
            check_release(signed, self.root, self.device, max(now_ns, self.floor_ns))
        except ReleaseError as error:
            check_release(signed, self.root, self.device, now_ns)
            raise ReleaseError(
                f"{error}; not by this device's clock, but the coordinator has signed a later "
                "time. If that was wrong: `fleetledger coordinator correct-clock`"
            ) from error

    def _check_highest(self, release: Release) -> None:
        highest = max(self.heights.values(), default=None)
        if highest is None or release.number > highest.number:
            return
        if release.number < highest.number:
            raise ReleaseError(
                f"release {release.number}: is older than release {highest.number}, which this "
                "device has taken; to go back to an old model, push it again"
            )
        if release.digest != highest.release:
            raise ReleaseError(
                f"release {release.number}: this device has taken another one of that number"
            )


def check_files(desired: DesiredModel, manifest: Manifest) -> None:
    """Raise `ReleaseError` unless exactly the files of the manifest are offered, with their sizes.

    Raises it too for a manifest of another version than was said.
    """
    if manifest.version != desired.version:
        raise ReleaseError(
            f"version: the manifest is of version {manifest.version}, and {desired.version} was "
            "announced"
        )
    variants = {(item.name, item.frozen.digest, item.frozen.size) for item in manifest.variants}
    for item in desired.variants:
        if (item.name, item.frozen.digest, item.frozen.size) not in variants:
            raise ReleaseError(
                f"variants: {item.name} is offered as {item.frozen.digest.short}, and the manifest "
                "pins none such; they do not belong together"
            )
    pinned = {reference.digest: reference.size for reference in manifest.files}
    offered = {offer.digest: offer.size for offer in desired.files}
    for digest in sorted(pinned.keys() | offered.keys()):
        if pinned.get(digest) != offered.get(digest):
            raise ReleaseError(
                f"files: {digest.short} has {pinned.get(digest, 'no')} bytes by the manifest, and "
                f"{offered.get(digest, 'no')} are offered; they do not belong together"
            )


@dataclass(frozen=True)
class Verdict:
    """What comes of a desired model's root, of its release, and why nothing else does."""

    root: tuple[Change, ...] = ()
    release: tuple[Change, ...] = ()
    refusal: str = ""


def judge(state: AgentState, event: inputs.DesiredArrived) -> Verdict:
    """Judge root and release of a desired model; nothing where the owner gave no root."""
    pinned, known = state.rules.pinned, root_of(state)
    if pinned is None or known is None:
        return Verdict()
    try:
        newest = follow(known, event.desired.roots)
    except SchemaError as error:
        return Verdict(refusal=str(error))
    check = _check_by(newest, pinned.device, state.records)
    moved = () if newest is known else (root_taken(newest, check.heights),)
    try:
        signed = check.check(event.desired, event.time_ns)
    except SchemaError as error:
        return Verdict(moved, refusal=str(error))
    return Verdict(moved, (heights_taken(check.with_taken(signed)),))


def root_taken(root: SignedRoot, heights: Mapping[str, Height]) -> Durable:
    """Believe a newer root; numbers of keys that it drops are forgotten."""

    def write(draft: Draft) -> None:
        draft.root = root
        heights_taken(heights).write(draft)

    return Durable(write)


def heights_taken(heights: Mapping[str, Height]) -> Durable:
    """Believe no release with a lower number than these from here on."""

    def write(draft: Draft) -> None:
        draft.heights.clear()
        draft.heights.update(heights)

    return Durable(write)


def root_of(state: AgentState) -> SignedRoot | None:
    """Return the newest root that this device believes, which may be the one its owner gave it."""
    pinned, taken = state.rules.pinned, state.records.root
    if pinned is None:
        return None
    if taken is None or taken.document.version < pinned.root.document.version:
        return pinned.root
    return taken


def check_of(state: AgentState) -> ReleaseCheck | None:
    """Return by what releases are judged now; None where the owner gave no root."""
    pinned, known = state.rules.pinned, root_of(state)
    if pinned is None or known is None:
        return None
    return _check_by(known, pinned.device, state.records)


def expired(state: AgentState, now_ns: int) -> str:
    """Say that the root, or the release of the model that runs, has expired; else nothing."""
    root, running = root_of(state), state.records.release
    if root is None:
        return ""
    now_ns = max(now_ns, state.records.heard.time_ns)
    try:
        root.document.check_not_expired(now_ns)
    except ReleaseError as error:
        return f"{error}; what runs goes on running"
    if running is None or running.release.expires_ns is None:
        return ""
    if now_ns < running.release.expires_ns:
        return ""
    return (
        f"release {running.release.number}: has expired, and runs on; this device has heard of no "
        "newer one"
    )


def _check_by(root: SignedRoot, device: DeviceId, records: AgentRecords) -> ReleaseCheck:
    names = {name_of(key) for key in root.document.release_keys}
    kept = {key: height for key, height in records.heights.items() if key in names}
    return ReleaseCheck(device, root.document, kept, records.heard.time_ns)


def _check_names(release: Release, desired: DesiredModel) -> None:
    """Raise `ReleaseError` unless the release names what is offered, of a size that can be."""
    if release.manifest != desired.manifest.digest or release.version != desired.version:
        raise ReleaseError(
            f"release {release.number}: names version {release.version}, manifest "
            f"{release.manifest.short}, and version {desired.version}, manifest "
            f"{desired.manifest.digest.short}, is offered"
        )
    if desired.manifest.size > MAX_MANIFEST_BYTES:
        raise ReleaseError(
            f"manifest: {desired.manifest.size} bytes are offered, and none has more than "
            f"{MAX_MANIFEST_BYTES}"
        )
