"""Releases signed by a key that is not in the coordinator's home: built, signed, to be sent."""

from __future__ import annotations

from pathlib import Path

from fleetledger.coordinator.settings import load
from fleetledger.coordinator.topics.releases.commands import SignModel
from fleetledger.coordinator.topics.releases.views import group_to_sign, release_to_sign
from fleetledger.coordinator.trust.key_files import read_key
from fleetledger.schemas.releases import Release, SignedRelease


def signed_version(home: Path, version: int, key: Path, now_ns: int) -> SignModel:
    """Return the command that lets out a version that waits for its release.

    Raises `CommandError` where it does not wait, and `KeyFileError` for a key that cannot be used.
    """
    return _signed(*release_to_sign(home, load(home), version, now_ns), key)


def signed_group(home: Path, rollout: int, group: int | None, key: Path, now_ns: int) -> SignModel:
    """Return the command that lets out a version to the group of a rollout that waits for it.

    The group that waits first where `group` is None. Raises as `signed_version` does.
    """
    return _signed(*group_to_sign(home, load(home), rollout, group, now_ns), key)


def _signed(action: int, release: Release, key: Path) -> SignModel:
    return SignModel(action=action, signed=SignedRelease.of(release, read_key(key)))
