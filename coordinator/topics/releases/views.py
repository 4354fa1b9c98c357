"""Roots and releases for whoever asks: tables for SQL, and what the command line shows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlite_utils import Database

from fleetledger.coordinator.core.folding import state_of
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.projections import Projection, json_text
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.settings import CoordinatorSettings
from fleetledger.coordinator.topics.models.entries import ModelDesired
from fleetledger.coordinator.topics.releases.entries import ReleaseSigned, RootPublished
from fleetledger.schemas.releases import Release
from fleetledger.schemas.rollouts import Share
from fleetledger.schemas.roots import SignedRoot
from fleetledger.schemas.values import DeviceId, Digest


def _root_published(db: Database, entry: Entry) -> None:
    root = entry.body["root"]
    db.table("root").insert(
        {
            "version": root["document"]["version"],
            "idx": entry.index,
            "root": json_text(root),
        }
    )


ROOT = Projection(
    "root",
    {"version": int, "idx": int, "root": str},
    ("version",),
    {RootPublished.kind: _root_published},
)


def _model_desired(db: Database, entry: Entry) -> None:
    body, devices = ModelDesired.model_validate(entry.body), entry.body["devices"]
    group = body.group
    share = None if group is None else group.share
    db.table("push").insert(
        {
            "idx": entry.index,
            "version": body.version,
            "devices": None if devices is None else json_text(devices),
            "spares": int(body.spares),
            "release_number": None,
            "of_all": int(body.of_all),
            "rollout": None if group is None else group.rollout,
            "of_group": None if group is None else group.group,
            "mode": None if group is None else group.mode,
            "share": None if share is None else share.model_dump_json(),
        }
    )


def _release_signed(db: Database, entry: Entry) -> None:
    release = entry.body["signed"]["release"]
    db.table("push").update(entry.body["action"], {"release_number": release["number"]})


PUSH = Projection(
    "push",
    {
        "idx": int,
        "version": int,
        "devices": str,
        "spares": int,
        "release_number": int,
        "of_all": int,
        "rollout": int,
        "of_group": int,
        "mode": str,
        "share": str,
    },
    ("idx",),
    {ModelDesired.kind: _model_desired, ReleaseSigned.kind: _release_signed},
)


def _release(db: Database, entry: Entry) -> None:
    release = entry.body["signed"]["release"]
    db.table("release").insert(
        {
            "number": release["number"],
            "idx": entry.index,
            "action": entry.body["action"],
            "version": release["version"],
            "key": entry.body["signed"]["signature"]["key"],
            "expires_ns": release["expires_ns"],
        },
        ignore=True,  # what was released for a group counts for all that the group is offered
    )


RELEASE = Projection(
    "release",
    {
        "number": int,
        "idx": int,
        "action": int,
        "version": int,
        "key": str,
        "expires_ns": int,
    },
    ("number",),
    {ReleaseSigned.kind: _release},
)


@dataclass(frozen=True)
class WaitingPush:
    """A version that is desired, and not released yet."""

    action: int
    version: int
    manifest: Digest
    devices: tuple[DeviceId, ...] | None
    rollout: int | None = None
    """That offers it to a group."""
    group: int | None = None
    share: Share | None = None
    """Of that group; None for all."""


@dataclass(frozen=True)
class ReleaseRow:
    """A release, as it was signed."""

    number: int
    version: int
    key: str
    index: int


def newest_root(home: Path) -> SignedRoot | None:
    """Return the root that was published last, if one was."""
    with ledger_of(home) as ledger:
        rows = list(ledger.db.query("SELECT root FROM root ORDER BY version DESC LIMIT 1"))
    return SignedRoot.model_validate_json(rows[0]["root"]) if rows else None


def waiting(home: Path) -> list[WaitingPush]:
    """Return what waits for a release, oldest first; nothing where there is no root."""
    with ledger_of(home) as ledger:
        return waiting_in(ledger)


def root_expiry(ledger: LedgerReader) -> tuple[int, int | None] | None:
    """Return the entry of the newest root, and when it expires; None where there is no root."""
    row = ledger.db.execute(
        "SELECT idx, json_extract(root, '$.document.expires_ns') FROM root"
        " ORDER BY version DESC LIMIT 1"
    ).fetchone()
    return None if row is None else (row[0], row[1])


def waiting_in(ledger: LedgerReader) -> list[WaitingPush]:
    """Return the same of an open ledger."""
    state = state_of(ledger)
    if state.trust.root is None:
        return []
    desired = (one for one in state.models.all_desired if one.action not in state.trust.releases)
    return [
        WaitingPush(
            one.action,
            one.version,
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


def releases(home: Path, newest: int = 10) -> list[ReleaseRow]:
    """Return the newest releases, newest first."""
    query = "SELECT * FROM release ORDER BY number DESC LIMIT ?"
    with ledger_of(home) as ledger:
        rows = list(ledger.db.query(query, [newest]))
    return [ReleaseRow(row["number"], row["version"], row["key"], row["idx"]) for row in rows]


def release_to_sign(
    home: Path, settings: CoordinatorSettings, version: int, now_ns: int
) -> tuple[int, Release]:
    """Return the release that a version waits for, and the entry that made it desired.

    Raises `CommandError` where it does not wait for one.
    """
    found = [push for push in waiting(home) if push.version == version]
    if not found:
        raise CommandError(
            f"version: {version} does not wait for a release; `fleetledger trust show` says what "
            "does, `fleetledger model push` makes a version wait"
        )
    return found[-1].action, _release_of(home, settings, found[-1], now_ns)


def group_to_sign(
    home: Path, settings: CoordinatorSettings, rollout: int, group: int | None, now_ns: int
) -> tuple[int, Release]:
    """Return the release that a group of a rollout waits for, and the entry that offers it.

    The group that waits first where none is named. Raises `CommandError` where none waits.
    """
    found = [push for push in waiting(home) if push.rollout == rollout]
    meant = [push for push in found if group in {None, push.group}]
    if not meant:
        whose = f"rollout {rollout}" if group is None else f"group {group} of rollout {rollout}"
        others = "".join(f", but group {push.group} does" for push in found[:1])
        raise CommandError(
            f"rollout: {whose} waits for no release{others}; a group does once those before it "
            "have passed"
        )
    return meant[0].action, _release_of(home, settings, meant[0], now_ns)


def _release_of(
    home: Path, settings: CoordinatorSettings, push: WaitingPush, now_ns: int
) -> Release:
    last = releases(home, 1)
    expires = settings.release.expire_days
    return Release(
        fleet=settings.fleet,
        number=max(last[0].number + 1 if last else 1, settings.release.first_number),
        manifest=push.manifest,
        version=push.version,
        expires_ns=None if expires is None else now_ns + round(expires * 86_400 * 10**9),
        devices=push.devices if push.rollout is None else None,
        share=push.share,
    )
