"""The fleet's root as the owner of a device gave it: a file in the agent's folder."""

from __future__ import annotations

from pathlib import Path

from fleetledger.device_agent.core.state import AgentRecords, Pinned
from fleetledger.device_agent.errors import HomeError
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.settings_file import SettingsError
from fleetledger.schemas.roots import SignedRoot
from fleetledger.schemas.values import FleetId


def pinned_of(home: AgentHome) -> Pinned | None:
    """Return the root in the agent's folder; None where the owner gave none.

    Raises `SettingsError` where the file is none, or of another fleet.
    """
    settings = home.settings
    if settings.root is None:
        return None
    return Pinned(settings.device, read_root(home.folder / settings.root, settings.fleet))


def read_root(file: Path, fleet: FleetId) -> SignedRoot:
    """Read a root document of a fleet; raise `SettingsError` naming the file."""
    try:
        root = SignedRoot.read(file.read_bytes())
        root.check(fleet)
    except (OSError, SchemaError) as error:
        raise SettingsError(
            f"root: {file}: {error}; take the file that `fleetledger trust publish` wrote"
        ) from error
    return root


def check_taken(pinned: Pinned | None, records: AgentRecords) -> None:
    """Raise `HomeError` where the owner's root is not of the history that was followed here."""
    if pinned is None or records.root is None:
        return
    given, taken = pinned.root.document, records.root.document
    if given.version == taken.version and given != taken:
        raise HomeError(
            f"root: version {given.version} in the agent's folder is {given.digest.short}, and "
            f"{taken.digest.short} was followed here; if the folder is right, run "
            "`fleetledger agent forget --root`"
        )
