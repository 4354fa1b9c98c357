"""Keys in files, wherever an operator keeps them: NAME.pem is private, NAME.pub beside it is not.

A private key is PKCS 8 in PEM, mode 0600. The public file holds one line, the key as `VerifyKey`
writes it; the private key has its name from there.
"""

from __future__ import annotations

import stat
from pathlib import Path

from fleetledger.coordinator.errors import KeyFileError
from fleetledger.coordinator.ledger.folder_store import fsync_folder
from fleetledger.runtime.private_file import write_private
from fleetledger.runtime.user_text import decode_text
from fleetledger.runtime.whole_file import write_whole
from fleetledger.schemas import keys
from fleetledger.schemas.errors import SignatureError


def make_key(file: Path, name: keys.KeyName) -> keys.SigningKey:
    """Make a new key in `file`; raise `KeyFileError` where there is one already."""
    if file.exists():
        raise KeyFileError(f"{file}: is there already; move it away, or give another file")
    key = keys.SigningKey.fresh(name)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(public_file(file), f"{key.verify_key}\n")
        write_private(file, key.pem)
        fsync_folder(file.parent)
    except OSError as error:
        raise KeyFileError(
            f"{file}: cannot be written: {error}; mend the folder's rights"
        ) from error
    return key


def read_key(file: Path) -> keys.SigningKey:
    """Read a private key; raise `KeyFileError` where it is none, or where others may read it."""
    public = read_public(public_file(file))
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
        data = file.read_bytes()
    except OSError as error:
        raise KeyFileError(f"{file}: cannot be read: {error.strerror}") from error
    if mode & 0o077:
        raise KeyFileError(
            f"{file}: others may read it (mode {mode:04o}); run `chmod 600 {file}`, and rotate the "
            "key if they did"
        )
    try:
        key = keys.SigningKey.from_pem(public.name, data)
    except SignatureError as error:
        raise KeyFileError(f"{file}: {error}") from error
    if key.verify_key != public:
        raise KeyFileError(f"{file}: {public_file(file)} is of another key; put the right one back")
    return key


def read_or_make(file: Path, name: keys.KeyName) -> keys.SigningKey:
    """Read the key in `file`, or make it where there is none."""
    return read_key(file) if file.exists() else make_key(file, name)


def read_public(file: Path) -> keys.VerifyKey:
    """Read a public key; raise `KeyFileError` where it is none."""
    try:
        return keys.read_verify_key(decode_text(file.read_bytes()))
    except (OSError, UnicodeDecodeError, SignatureError) as error:
        raise KeyFileError(f"{file}: cannot be read as a public key: {error}") from error


def public_file(file: Path) -> Path:
    """Return where the public half of a key lies."""
    return file.with_suffix(".pub")
