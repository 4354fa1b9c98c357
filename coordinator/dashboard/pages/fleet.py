"""Whether the fleet is well, what needs a person, and who is there."""

from __future__ import annotations

from coordinator.dashboard.page import PageModel
from coordinator.dashboard.sources import Asked, Sources
from coordinator.dashboard.words import plural


class FleetPage(PageModel):
    """All devices."""

    devices: tuple[str, ...]


def read(sources: Sources, _asked: Asked) -> FleetPage:
    """Return the devices by name."""
    found = sources.ledger.db.execute("SELECT device FROM device ORDER BY device").fetchall()
    names = tuple(name for (name,) in found)
    return FleetPage(title=f"{plural(len(names), 'device')} take part.", devices=names)
