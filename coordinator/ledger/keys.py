"""The coordinator's own key: a file in its home folder, made at the first start.

With it the coordinator signs checkpoints of the ledger. The public half lies beside it as text, to
be handed to whoever audits; the private one can be read by its owner alone.
"""

from __future__ import annotations

from pathlib import Path

from fleetledger.coordinator.errors import KeyFileError
from fleetledger.coordinator.ledger.folder_store import fsync_folder
from fleetledger.coordinator.ledger.ranges import ReadNote
from fleetledger.coordinator.ledger.store import SignNote
from fleetledger.runtime.private_file import write_private
from fleetledger.runtime.user_text import decode_text
from fleetledger.runtime.whole_file import write_whole
from fleetledger.schemas import keys
from fleetledger.schemas.errors import SignatureError
from fleetledger.schemas.proofs.checkpoint import Checkpoint
from fleetledger.schemas.values import FleetId

_OWN = keys.KeyName("own/coordinator")
"""Name of the key where nobody else reads what it signs."""


def key_folder(home: Path) -> Path:
    """Return where the keys of the coordinator in `home` lie."""
    return home / "keys"


def coordinator_key(home: Path, fleet: FleetId) -> keys.SigningKey:
    """Return the coordinator's key, made where there is none yet; raise `KeyFileError`."""
    file = key_folder(home) / "coordinator.pem"
    name = keys.KeyName(f"{fleet}/coordinator")
    try:
        if not file.exists():
            _make(file, keys.SigningKey.fresh(name))
        key = keys.SigningKey.from_pem(name, file.read_bytes())
        _show(file.with_suffix(".pub"), f"{key.verify_key}\n")
    except OSError as error:
        raise KeyFileError(f"{file}: cannot be used: {error}; mend the folder's rights") from error
    except SignatureError as error:
        raise KeyFileError(f"{file}: {error}; put the key back from a backup") from error
    return key


def kept_key(home: Path) -> keys.SigningKey | None:
    """Return the coordinator's key for what it keeps for itself; None where no usable one is."""
    try:
        data = (key_folder(home) / "coordinator.pem").read_bytes()
        return keys.SigningKey.from_pem(_OWN, data)
    except (OSError, SignatureError):
        return None


def public_key(home: Path) -> keys.VerifyKey | None:
    """Return the public half of the coordinator's key, or None before the first start."""
    file = key_folder(home) / "coordinator.pub"
    try:
        return keys.read_verify_key(decode_text(file.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, SignatureError) as error:
        raise KeyFileError(f"{file}: cannot be read as a key: {error}") from error


def note_signer(home: Path, fleet: FleetId) -> SignNote:
    """Return what signs the ledger's checkpoints with the coordinator's key."""
    return signer_of_notes(coordinator_key(home, fleet), fleet)


def signer_of_notes(key: keys.SigningKey, fleet: FleetId) -> SignNote:
    """Return what signs a ledger's checkpoints with a key."""
    return lambda size, root: Checkpoint(fleet, size, root).signed(key)


def note_reader(home: Path, fleet: FleetId) -> ReadNote | None:
    """Return what reads notes that this coordinator signed; None where it has no key."""
    key = public_key(home)
    if key is None:
        return None

    return lambda note: Checkpoint.read(note, fleet, [key])


def _make(file: Path, key: keys.SigningKey) -> None:
    """Write a new private key, whole or not at all, readable for its owner alone."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(file, key.pem)
    fsync_folder(file.parent)


def _show(file: Path, text: str) -> None:
    """Write the public half, unless it is there: another program may be reading it."""
    if not file.exists() or file.read_bytes() != text.encode("ascii"):
        write_whole(file, text)
