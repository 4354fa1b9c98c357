"""Addresses within the dashboard; names that devices gave are quoted here and nowhere else."""

from __future__ import annotations

from urllib.parse import quote, urlencode


def device_url(name: str) -> str:
    """Return the address of a device's page."""
    return f"/devices/{quote(name, safe='')}"


def entry_url(index: int) -> str:
    """Return the address of an entry of the ledger."""
    return f"/ledger?entry={index}#entry"


def model_url(version: int) -> str:
    """Return the address of a version of the model."""
    return f"/models/{version}"


def class_url(name: str) -> str:
    """Return the address of a class."""
    return f"/classes?{urlencode({'name': name})}#{quote(name, safe='')}"


def fleet_url(**asked: str) -> str:
    """Return the address of the list of devices, filtered: `fleet_url(filter="state:away")`."""
    return f"/?{urlencode(asked)}#devices"


def action_url(name: str, **fields: str) -> str:
    """Return the address of the form of an action, with fields that are filled in."""
    query = f"?{urlencode(fields)}" if fields else ""
    return f"/act/{quote(name, safe='')}{query}"
