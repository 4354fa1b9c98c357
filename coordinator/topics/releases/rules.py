"""Rules of releases: with a root, what is desired goes out once a release key has signed it.

- **A number for each desired version**, one above the last that the ledger has. The entry comes
  before anything is sent, so a crash in between leaves a number that nobody has seen.
- **What was released last** is what devices are told, however long the next one waits; so they hear
  of a new root at once.
- **By itself** where the release key lies in the coordinator's home; else the desired version waits
  until the operator has it signed.
- **A key that the root drops** makes its releases worthless: what is desired by them is desired
  anew, and signed anew.
- **A group of a rollout** is released by its share, and by no names, so that one signature holds
  for whoever belongs to it: to compare and to run, to try again, and for who comes later. What was
  released for it already is not signed again, unless something with a higher number may have come
  to one of its devices since.
- **Roots follow one another** as devices will check it (`schemas.roots`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from fleetledger.coordinator.core.decision import Decision, record
from fleetledger.coordinator.core.entry import OPERATOR
from fleetledger.coordinator.core.rules import ReleaseRules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.topics.models.entries import DevicePinned, ModelDesired
from fleetledger.coordinator.topics.models.state import DesiredVersion
from fleetledger.coordinator.topics.releases.commands import PublishRoot, ReleaseCommand, SignModel
from fleetledger.coordinator.topics.releases.entries import ReleaseSigned, RootPublished
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.releases import MAX_NAMED_DEVICES, Release, SignedRelease, check_signature
from fleetledger.schemas.roots import RootDocument
from fleetledger.schemas.values import DeviceId

_DAY_NS = 86_400 * 1_000_000_000
_OFFLINE = "it waits for `fleetledger model sign {version} --key FILE`"


class SignRelease(Protocol):
    """Signs releases by the key at hand."""

    def __call__(self, release: Release, root: RootDocument) -> SignedRelease | None:
        """Return the signed release; None where no key is at hand that the root names."""

    def is_ready(self, root: RootDocument) -> bool:
        """Whether a key is at hand that the root names."""


class SignsNothing:
    """The release key is somewhere else."""

    def __call__(self, release: Release, root: RootDocument) -> SignedRelease | None:
        """Leave it unsigned."""
        return None

    def is_ready(self, root: RootDocument) -> bool:
        """Say that there is no key."""
        return False


class Releases:
    """Decides which releases there are."""

    def __init__(self, rules: ReleaseRules, state: State, sign: SignRelease) -> None:
        self._rules = rules
        self._state = state
        self._sign = sign

    def carry_out(self, command: ReleaseCommand) -> tuple[Decision, str]:
        """Return what a command decides and a sentence for the operator."""
        return self.publish(command) if isinstance(command, PublishRoot) else self.sign(command)

    def due(self, now_ns: int) -> Decision:
        """Sign what is desired and has no release, or make it desired anew."""
        root = self._state.trust.root
        if root is None:
            return Decision()
        anew = self._anew(root.document)
        return anew if anew.entries else self._signed(root.document, now_ns)

    def _signed(self, root: RootDocument, now_ns: int) -> Decision:
        decision, number = Decision(), self._next_number()
        for desired in self._unreleased():
            release = self._release(desired, number, root, now_ns)
            known = self._known(release, desired, root, now_ns)
            if known is not None:
                decision += record(ReleaseSigned(action=desired.action, signed=known))
                continue
            offline = desired.group is not None and desired.group.offline
            signed = None if offline else self._sign(release, root)
            if signed is not None:
                decision += record(ReleaseSigned(action=desired.action, signed=signed))
                number += 1
        return decision

    def _known(
        self, release: Release, desired: DesiredVersion, root: RootDocument, now_ns: int
    ) -> SignedRelease | None:
        """Return what was released for the same group before, where it still counts there."""
        if desired.group is None:
            return None
        found = self._state.trust.releases.values()
        for signed in found:
            same = {"number": signed.release.number, "expires_ns": signed.release.expires_ns}
            if signed.release != release.model_copy(update=same):
                continue
            expires = signed.release.expires_ns
            counts = signed.may_be_signed_by(root.release_keys)
            in_time = expires is None or now_ns < expires
            followed = any(_may_follow(signed.release, other) for other in found)
            if counts and in_time and not followed:
                return signed
        return None

    def publish(self, command: PublishRoot) -> tuple[Decision, str]:
        """Record the next root; raise `CommandError` where devices would not follow it."""
        root, former = command.root, self._state.trust.root
        document = root.document
        fleet = document.fleet if former is None else former.document.fleet
        following = former is not None and not command.anew
        try:
            root.check(fleet, former.document if former is not None and following else None)
        except SchemaError as error:
            raise CommandError(str(error)) from error
        number = 1 if former is None else former.document.version + 1
        if document.version != number:
            raise CommandError(f"root: version {document.version} is not the next, {number}")
        body = RootPublished(root=root, anew=former is not None and command.anew)
        return record(body, actor=OPERATOR), f"root version {number} is published"

    def sign(self, command: SignModel) -> tuple[Decision, str]:
        """Record a release that was signed elsewhere; raise `CommandError` if it does not fit."""
        root, signed = self._state.trust.root, command.signed
        if root is None:
            raise CommandError("release: this fleet has no root; see `fleetledger trust init`")
        waiting = (item for item in self._unreleased() if item.action == command.action)
        desired = next(waiting, None)
        if desired is None:
            raise CommandError(
                "release: what it is for is not desired any more, or has one; see "
                "`fleetledger model list`"
            )
        expected = self._release(desired, self._next_number(), root.document, 0)
        given = signed.release.model_copy(update={"expires_ns": expected.expires_ns})
        if given != expected:
            raise CommandError(
                f"release {signed.release.number}: is not number {expected.number} for version "
                f"{expected.version} on the same devices; sign it again"
            )
        try:
            check_signature(signed, root.document)
        except SchemaError as error:
            raise CommandError(str(error)) from error
        body = ReleaseSigned(action=desired.action, signed=signed)
        text = f"release {signed.release.number} is signed: model {desired.version} goes out"
        return record(body, actor=OPERATOR), text

    def told(self, version: int, devices: tuple[DeviceId, ...] | None) -> str:
        """Return what is told of a push that waits, empty where nothing waits.

        Raises `CommandError` where no release could name so many devices.
        """
        root = self._state.trust.root
        if root is None:
            return ""
        if devices is not None and len(devices) > MAX_NAMED_DEVICES:
            raise CommandError(
                f"device: {len(devices)} are too many for one release; push to {MAX_NAMED_DEVICES} "
                "at a time, or to all"
            )
        ready = self._sign.is_ready(root.document)
        return "" if ready else "; " + _OFFLINE.format(version=version)

    def _unreleased(self) -> Iterator[DesiredVersion]:
        """Return what is desired and was never released, oldest first."""
        released = self._state.trust.releases
        return (item for item in self._state.models.all_desired if item.action not in released)

    def _anew(self, root: RootDocument) -> Decision:
        """Make desired anew what was released by a key that the root does not name any more."""
        decision = Decision()
        reason = f"root version {root.version} does not name the key of its release any more"
        everybodys = False
        for desired in self._state.models.all_desired:
            lost = self._state.trust.has_lost(desired.action)
            # What is desired of everybody takes the place of what single devices were to run.
            if not lost and not (everybodys and not desired.pins):
                continue
            everybodys |= desired == self._state.models.desired
            holds = self._state.models.devices_of(desired)
            decision += record(_desired_again(desired, holds, reason))
        return decision

    def _next_number(self) -> int:
        return max(self._state.trust.last_number + 1, self._rules.first_number)

    def _release(
        self, desired: DesiredVersion, number: int, root: RootDocument, now_ns: int
    ) -> Release:
        exported = self._state.models.by_version[desired.version].exported
        assert exported is not None
        expires = None
        if self._rules.expire_days is not None:
            expires = now_ns + round(self._rules.expire_days * _DAY_NS)
        return Release(
            fleet=root.fleet,
            number=number,
            manifest=exported.manifest.digest,
            version=desired.version,
            expires_ns=expires,
            devices=desired.devices if desired.group is None else None,
            share=None if desired.group is None else desired.group.share,
        )


def _may_follow(release: Release, other: SignedRelease) -> bool:
    """Whether a device of a release may have taken the other one after it."""
    later = other.release
    if later.number <= release.number:
        return False
    if release.share is None:
        return True
    if later.devices is None:
        # A later group of the same rollout holds them too, and they stay with what was theirs.
        return later.share is None or later.share.salt != release.share.salt
    return any(release.share.has(device) for device in later.devices)


def _desired_again(
    desired: DesiredVersion, devices: tuple[DeviceId, ...] | None, reason: str
) -> ModelDesired | DevicePinned:
    """Return the entry that says once more what one said, of `devices`; None for all."""
    if desired.pins is None or devices is None:
        return ModelDesired(
            version=desired.version, devices=devices, reason=reason, group=desired.group
        )
    if desired.pins:
        return DevicePinned(devices=devices, version=desired.version)
    return DevicePinned(devices=devices, then=desired.version)
