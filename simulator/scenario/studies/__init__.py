"""The studies that ship: TOML files in this folder, known by their names without `.toml`."""

from __future__ import annotations

from fleetledger.simulator.scenario.shipped import shipped_names, shipped_text


def study_names() -> tuple[str, ...]:
    """Return the names of all studies that ship, sorted."""
    return shipped_names(__name__)


def study_text(name: str) -> str:
    """Return one of them as it was written."""
    return shipped_text(name, __name__)
