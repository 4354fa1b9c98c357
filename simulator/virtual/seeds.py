"""Names, secrets and keys that real programs draw at random, here made from the seed of the run."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fleetledger.coordinator.ledger.keys import key_folder
from fleetledger.runtime.private_file import write_private
from fleetledger.schemas.keys import KeyName, SigningKey
from fleetledger.schemas.values import BootId, FleetId


def seeded_boot(seed: int, *what: object) -> BootId:
    """Return the name of a run or an installation."""
    return BootId(_digest(seed, what).hexdigest()[:16])


def seeded_secret(seed: int, *what: object) -> bytes:
    """Return 32 bytes that stand for what a device would have drawn."""
    return _digest(seed, what).digest()


def seeded_noise(round_seed: int, who: str) -> bytes:
    """Return what a device, or the coordinator, would have drawn for the noise of a round."""
    return hashlib.sha256(f"{round_seed}/noise/{who}".encode()).digest()


def seeded_key(seed: int, name: KeyName) -> SigningKey:
    """Return the key of a name."""
    return SigningKey(name, seeded_secret(seed, "key", name))


def install_key(home: Path, fleet: FleetId, seed: int) -> SigningKey:
    """Put the coordinator's key into its home, as its first start would; return it."""
    key = seeded_key(seed, KeyName(f"{fleet}/coordinator"))
    key_folder(home).mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(key_folder(home) / "coordinator.pem", key.pem)
    return key


def _digest(seed: int, what: tuple[object, ...]) -> hashlib._Hash:
    return hashlib.sha256("/".join(map(str, (seed, *what))).encode("utf-8"))
