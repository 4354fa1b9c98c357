"""Addresses within the dashboard; names that devices gave are quoted here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
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


def stage_url(stage: int) -> str:
    """Return the address of a stage."""
    return f"/stages/{stage}"


def rollout_url(number: int) -> str:
    """Return the address of a rollout."""
    return f"/rollouts/{number}"


def round_url(number: int) -> str:
    """Return the address of a round."""
    return f"/rounds/{number}"


def contributions_url(**asked: object) -> str:
    """Return the address of what devices gave, filtered: `contributions_url(stage=3)`."""
    return _listed("/contributions", asked)


def ledger_url(**asked: object) -> str:
    """Return the address of the ledger's entries, filtered: `ledger_url(about="models")`."""
    return _listed("/ledger", asked)


def class_url(name: str) -> str:
    """Return the address of a class."""
    return f"/classes?{urlencode({'name': name})}#{quote(name, safe='')}"


def fleet_url(**asked: str) -> str:
    """Return the address of the list of devices, filtered: `fleet_url(filter="state:away")`."""
    return f"/?{urlencode(asked)}#devices"


def map_url(**asked: object) -> str:
    """Return the address of the map, by what it is asked for: `map_url(map="accuracy")`."""
    return f"{_listed('/', asked)}#map"


def action_url(name: str, **fields: str) -> str:
    """Return the address of the form of an action, with fields that are filled in."""
    query = f"?{urlencode(fields)}" if fields else ""
    return f"/act/{quote(name, safe='')}{query}"


def _listed(path: str, asked: Mapping[str, object]) -> str:
    query = urlencode({name: value for name, value in asked.items() if value not in {None, ""}})
    return f"{path}?{query}" if query else path
