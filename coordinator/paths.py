"""Where things are in a coordinator's home folder."""

from __future__ import annotations

from pathlib import Path

FILE_NAME = "coordinator.toml"
"""Settings of the coordinator."""
HOME_VARIABLE = "FLEETLEDGER_COORDINATOR"
DEFAULT_HOME = "coordinator-home"


def ledger_path(home: Path) -> Path:
    """Return the path of the ledger's database."""
    return home / "ledger" / "ledger.db"


def blob_folder(home: Path) -> Path:
    """Return the folder of the blob store, where the settings name no other."""
    return home / "ledger" / "blobs"


def live_path(home: Path) -> Path:
    """Return the path of what is known of the fleet just now."""
    return home / "live.db"
