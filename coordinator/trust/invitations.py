"""Secrets of open tokens: one private file each, in the coordinator's home.

The ledger has their digests alone. A secret is there before the ledger knows of it, and is deleted
once it can be used no more; a file that a crash left behind is worth nothing without its entry.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from fleetledger.coordinator.errors import KeyFileError
from fleetledger.coordinator.ledger.folder_store import fsync_folder
from fleetledger.runtime.private_file import write_private
from fleetledger.schemas.token import Token
from fleetledger.schemas.values import Digest


class Invitations:
    """The secrets in the folder `keys/invitations` of a home."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "keys" / "invitations"

    def keep(self, token: Token) -> None:
        """Write a token's secret; raise `KeyFileError`."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(self._file(token.invitation), token.secret_bytes)
            fsync_folder(self._folder)
        except OSError as error:
            raise KeyFileError(
                f"{self._folder}: cannot be written: {error.strerror}; mend the folder's rights"
            ) from error

    def secret(self, invitation: Digest) -> bytes | None:
        """Return the secret of an invitation; None where it is not here or was altered."""
        try:
            secret = self._file(invitation).read_bytes()
        except OSError:
            return None
        return secret if Digest.of(secret) == invitation else None

    def forget(self, invitation: Digest) -> None:
        """Delete a secret; one that stays is worth nothing, as its entry says."""
        with contextlib.suppress(OSError):
            self._file(invitation).unlink(missing_ok=True)

    def _file(self, invitation: Digest) -> Path:
        return self._folder / invitation
