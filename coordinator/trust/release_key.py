"""The release key in the coordinator's home, where the operator keeps it there.

It is read whenever something is to be signed, so a key that comes, goes or is replaced while the
coordinator runs counts from the next release on.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from fleetledger.coordinator.errors import KeyFileError
from fleetledger.coordinator.settings import CoordinatorSettings, load
from fleetledger.coordinator.topics.releases import views as release_views
from fleetledger.coordinator.topics.releases.commands import SignModel
from fleetledger.coordinator.trust.key_files import read_key
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.releases import Release, SignedRelease
from fleetledger.schemas.roots import RootDocument

log = logging.getLogger("coordinator.trust.release_key")


@dataclass(frozen=True)
class HomeReleaseKey:
    """Signs releases by the key in a file, if it is there and the root names it."""

    file: Path

    def __call__(self, release: Release, root: RootDocument) -> SignedRelease | None:
        """Return the signed release; None where no key is here that the root names."""
        key = self._key(root)
        return None if key is None else SignedRelease.of(release, key)

    def is_ready(self, root: RootDocument) -> bool:
        """Whether a key is here that the root names."""
        return self._key(root) is not None

    def _key(self, root: RootDocument) -> SigningKey | None:
        # While a key is rotated the next one lies beside it: release.pem, release-2.pem.
        for file in sorted(self.file.parent.glob(f"{self.file.stem}*{self.file.suffix}")):
            try:
                key = read_key(file)
            except KeyFileError as error:
                log.warning("not signed with: %s", error)
                continue
            if key.verify_key in root.release_keys:
                return key
        return None


def waits_for_key(home: Path) -> bool:
    """Return whether models wait for a signature that no key in this home can give."""
    root = release_views.newest_root(home)
    if root is None:
        return False
    return not release_signer(home, load(home)).is_ready(root.document)


def release_signer(home: Path, settings: CoordinatorSettings) -> HomeReleaseKey:
    """Return what signs releases for the coordinator in `home`."""
    return HomeReleaseKey(home / settings.release.key)


def signed_version(home: Path, version: int, key: Path, now_ns: int) -> SignModel:
    """Return the command that lets out a version that waits for its release.

    Raises `CommandError` where it does not wait, and `KeyFileError` for a key that cannot be used.
    """
    return _signed(*release_views.release_to_sign(home, load(home), version, now_ns), key)


def signed_group(home: Path, rollout: int, group: int | None, key: Path, now_ns: int) -> SignModel:
    """Return the command that lets out a version to the group of a rollout that waits for it.

    The group that waits first where `group` is None. Raises as `signed_version` does.
    """
    return _signed(*release_views.group_to_sign(home, load(home), rollout, group, now_ns), key)


def _signed(action: int, release: Release, key: Path) -> SignModel:
    return SignModel(action=action, signed=SignedRelease.of(release, read_key(key)))
