"""Files that only their owner reads: the secrets of a fleet, one file for each user."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.private_file import write_private
from fleetledger.runtime.user_text import decode_text, lines_of
from fleetledger.transport.errors import BrokerFilesError

SECRET_BYTES = 32


def write_secret(path: Path, text: str) -> None:
    """Replace the file at `path` as `write_private` does; raise `BrokerFilesError` naming it."""
    try:
        write_private(path, text.encode("utf-8"))
    except OSError as error:
        raise BrokerFilesError(
            f"{path}: cannot be written: {error.strerror}; free the disk, or choose another folder"
        ) from error


def make_private_folder(folder: Path) -> None:
    """Make `folder` with mode 0700, or give it that mode; raise `BrokerFilesError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise BrokerFilesError(
            f"{folder}: cannot be made: {error.strerror}; choose another folder"
        ) from error


def secrets_of(folder: Path, users: Iterable[str]) -> dict[str, str]:
    """Return the secret of each user, kept in `folder` as a file with the user's name.

    A secret that is there is kept, for it is in use; a missing one is made of 256 random bits.
    Raises `BrokerFilesError` for a file that holds no single line.
    """
    make_private_folder(folder)
    return {user: _secret(folder / user) for user in users}


def forget_secret(path: Path) -> None:
    """Delete a user's secret, where there is one; raise `BrokerFilesError`."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise BrokerFilesError(
            f"{path}: cannot be deleted: {error.strerror}; delete it yourself"
        ) from error


def _secret(path: Path) -> str:
    try:
        lines = lines_of(decode_text(path.read_bytes()))
    except FileNotFoundError:
        secret = secrets.token_hex(SECRET_BYTES)
        write_secret(path, f"{secret}\n")
        return secret
    except (OSError, UnicodeDecodeError) as error:
        raise BrokerFilesError(f"{path}: cannot be read: {error}; make it readable") from error
    if len(lines) != 1 or not lines[0]:
        raise BrokerFilesError(
            f"{path}: {count_of(len(lines), 'line')}, expected one with the password; delete the "
            "file, and the user gets a new one"
        )
    path.chmod(0o600)
    return lines[0]
