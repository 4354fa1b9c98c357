"""Whether a device is well, what it runs, and what happened to it."""

from __future__ import annotations

from coordinator.dashboard.page import PageModel
from coordinator.dashboard.sources import Asked, NotThereError, Sources


class DevicePage(PageModel):
    """One device."""

    name: str


def read(sources: Sources, asked: Asked) -> DevicePage:
    """Return what is known of a device; raise `NotThereError` where none has the name."""
    name = asked.path["name"]
    query = "SELECT count(*) FROM device WHERE device = ?"
    if not sources.ledger.db.execute(query, [name]).fetchone()[0]:
        raise NotThereError(f"No device of the name {name} was admitted.")
    return DevicePage(title=f"{name} takes part.", name=name)
