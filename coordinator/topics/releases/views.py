"""Roots and releases, as the command line and pages show them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.topics.releases.entries import ReleaseSigned, RootPublished
from fleetledger.runtime.command_report import Column
from fleetledger.schemas.releases import Release
from fleetledger.schemas.rollouts import Share
from fleetledger.schemas.roots import SignedRoot
from fleetledger.schemas.values import DeviceId, Digest

if TYPE_CHECKING:  # what reads a ledger waits for no settings
    from fleetledger.coordinator.settings import CoordinatorSettings


@dataclass(frozen=True)
class WaitingRelease:
    """A version that is desired, and waits for a signature."""

    version: int
    index: int
    """Entry that made it desired."""
    manifest: Digest
    devices: tuple[DeviceId, ...] | None
    """None for all, or for a group of a rollout."""
    rollout: int | None = None
    """That offers it to a group."""
    group: int | None = None
    share: Share | None = None
    """Of that group; None for all."""

    @property
    def whom(self) -> str:
        """For whom it waits, in words."""
        if self.rollout is not None:
            return f"group {self.group} of rollout {self.rollout}"
        return ", ".join(self.devices) if self.devices else "all devices"


@dataclass(frozen=True)
class ReleaseRow:
    """A release, as it was signed."""

    number: Annotated[int, Column("number")]
    version: Annotated[int, Column("model")]
    """Of the model."""
    key: Annotated[str, Column("key")]
    """Who signed it."""
    index: Annotated[int, Column("entry")]
    """The entry with it."""
    action: int
    """Entry that made the version desired."""
    expires_ns: int | None


def newest_root(home: Path) -> SignedRoot | None:
    """Return the root that was published last, if one was."""
    with ledger_of(home) as ledger:
        found = root_entry(ledger)
    return None if found is None else found[1]


def root_entry(ledger: LedgerReader) -> tuple[int, SignedRoot] | None:
    """Return the index and the root of its newest entry; None where there is no root."""
    published = list(ledger.find(RootPublished))
    if not published:
        return None
    return published[-1].index, RootPublished.model_validate(published[-1].body).root


def waiting(ledger: LedgerReader) -> list[WaitingRelease]:
    """Return what waits for a release, oldest first; nothing where there is no root."""
    state = state_of(ledger)
    if state.trust.root is None:
        return []
    desired = (one for one in state.models.all_desired if one.action not in state.trust.releases)
    return [
        WaitingRelease(
            one.version,
            one.action,
            exported.manifest.digest,
            one.devices,
            None if group is None else group.rollout,
            None if group is None else group.group,
            None if group is None else group.share,
        )
        for one in sorted(desired, key=lambda one: one.action)
        for exported in [state.models.by_version[one.version].exported]
        if exported is not None
        for group in [one.group]
    ]


def releases(
    ledger: LedgerReader, limit: int | None = None, version: int | None = None
) -> list[ReleaseRow]:
    """Return releases, newest first: of one version, or of all; at most `limit`.

    Of a release that was signed for a group, and counted for others since, the first entry.
    """
    found: dict[int, ReleaseRow] = {}
    for entry in ledger.find(ReleaseSigned):
        body = ReleaseSigned.model_validate(entry.body)
        one, key = body.signed.release, body.signed.signature.key
        row = ReleaseRow(one.number, one.version, key, entry.index, body.action, one.expires_ns)
        if version in (None, row.version):
            found.setdefault(row.number, row)
    return [found[number] for number in sorted(found, reverse=True)][:limit]


def release_to_sign(
    home: Path, settings: CoordinatorSettings, version: int, now_ns: int
) -> tuple[int, Release]:
    """Return the release that a version waits for, and the entry that made it desired.

    Raises `CommandError` where it does not wait for one.
    """
    with ledger_of(home) as ledger, ledger.snapshot():
        found = [push for push in waiting(ledger) if push.version == version]
        last = state_of(ledger).trust.last_number
    if not found:
        raise CommandError(
            f"version: {version} does not wait for a release; `fleetledger trust show` says what "
            "does, `fleetledger model push` makes a version wait"
        )
    return found[-1].index, _release_of(last, settings, found[-1], now_ns)


def group_to_sign(
    home: Path, settings: CoordinatorSettings, rollout: int, group: int | None, now_ns: int
) -> tuple[int, Release]:
    """Return the release that a group of a rollout waits for, and the entry that offers it.

    The group that waits first where none is named. Raises `CommandError` where none waits.
    """
    with ledger_of(home) as ledger, ledger.snapshot():
        found = [push for push in waiting(ledger) if push.rollout == rollout]
        last = state_of(ledger).trust.last_number
    meant = [push for push in found if group in {None, push.group}]
    if not meant:
        whose = f"rollout {rollout}" if group is None else f"group {group} of rollout {rollout}"
        others = "".join(f", but group {push.group} does" for push in found[:1])
        raise CommandError(
            f"rollout: {whose} waits for no release{others}; a group does once those before it "
            "have passed"
        )
    return meant[0].index, _release_of(last, settings, meant[0], now_ns)


def _release_of(
    last: int, settings: CoordinatorSettings, push: WaitingRelease, now_ns: int
) -> Release:
    expires = settings.release.expire_days
    return Release(
        fleet=settings.fleet,
        number=max(last + 1, settings.release.first_number),
        manifest=push.manifest,
        version=push.version,
        expires_ns=None if expires is None else now_ns + round(expires * 86_400 * 10**9),
        devices=push.devices if push.rollout is None else None,
        share=push.share,
    )
