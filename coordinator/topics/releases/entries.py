"""Which keys the fleet believes, and what they released."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.kind import Follows, Kind, LedgerTopic, Notification
from fleetledger.coordinator.core.phrases import names_of
from fleetledger.coordinator.topics.models.entries import DevicePinned
from fleetledger.coordinator.topics.releases.state import Released, Trust
from fleetledger.schemas.releases import SignedRelease
from fleetledger.schemas.roots import SignedRoot, named_keys
from fleetledger.schemas.values import Digest


class RootPublished(EntryBody):
    """A root document that follows from the one before; the first one begins the chain."""

    kind: ClassVar[str] = "root.published"
    root: SignedRoot
    anew: bool = False
    """The root keys were lost: nothing leads here from the root before, and devices follow only
    once their owners gave them this one."""

    @property
    def blobs(self) -> tuple[Digest, ...]:
        """The roster of devices, where the root names one."""
        devices = self.root.document.devices
        return () if devices is None else (devices,)

    def say(self, at: EntryContext) -> str:
        root = self.root.document
        begins = ", which begins anew" if self.anew else ""
        return (
            f"Root version {root.version}{begins}: releases are signed by "
            f"{named_keys(root.release_keys)}; the next root by {root.threshold} of "
            f"{named_keys(root.root_keys)}."
        )


def _take_root(trust: Trust, body: RootPublished, _at: EntryContext) -> None:
    trust.apply(body.root, anew=body.anew)


class ReleaseSigned(EntryBody):
    """A release key has signed what an entry made desired: devices are told of it from here on.

    Its number is the one after the last such entry, or a higher one that the operator set; where a
    group of a rollout goes on with what was released for it, it is that release once more.
    """

    kind: ClassVar[str] = "release.signed"
    action: int = Field(ge=0)
    """Ledger index of the entry that made the version desired."""
    signed: SignedRelease

    def say(self, at: EntryContext) -> str:
        release = self.signed.release
        whom = names_of(release.devices) if release.devices else "every device"
        if release.share is not None:
            whom = f"the devices of the share {release.share.salt}, {release.share.percent}"
        return (
            f"Release {release.number}: model {release.version} may be installed on {whom}, as "
            f"entry {self.action} wants it (key {self.signed.signature.key})."
        )


def _release(trust: Trust, body: ReleaseSigned, _at: EntryContext) -> None:
    """Devices are told of it, unless something later was released for them."""
    release, action = body.signed.release, body.action
    trust.last_number = max(trust.last_number, release.number)
    desired = next((item for item in trust.models.all_desired if item.action == action), None)
    group = None if desired is None else desired.group
    released = Released(release.version, action, group)
    if desired is not None and group is not None and desired.devices is not None:
        trust.release_for(desired.devices, released)
    elif group is not None and not group.of_all:
        trust.release_offer(released)
    elif release.devices is None:
        trust.release_for_all(released)
    else:
        trust.release_for(release.devices, released)
    trust.releases[action] = body.signed
    trust.forget_others()


def _notify_of_release(body: ReleaseSigned) -> Notification:
    release = body.signed.release
    if release.share is None:
        return Notification("released", release.devices)
    return Notification("released", action=body.action)


def _hold_still(trust: Trust, body: DevicePinned, _at: EntryContext) -> None:
    if body.version is not None:
        trust.hold_still(body.devices)


RELEASES = LedgerTopic(
    "releases",
    kinds=(
        Kind(RootPublished, _take_root, lambda _: Notification("released")),
        Kind(
            ReleaseSigned,
            _release,
            _notify_of_release,
        ),
    ),
    follows=(Follows(DevicePinned, _hold_still),),
)
