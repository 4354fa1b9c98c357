"""Remark on a device in a few words, empty where all is as it should be."""

from __future__ import annotations

from fleetledger.coordinator.reports.answers import FleetDevice, Trouble
from fleetledger.runtime.count_words import agree, count_of
from fleetledger.transport.pages.words import ago, long

HOT_CELSIUS = 85.0
"""From here on the temperature is told; most boards slow down soon after."""
_OUTBOX = 10
"""Messages that wait on a device that is there, from which on it is told."""


def remark(device: FleetDevice, now_ns: int) -> str:
    """Return it."""
    said = [
        *_presence(device, now_ns),
        *(_problem(trouble, now_ns) for trouble in device.problems),
        *_model(device),
        *_machine(device),
    ]
    return "; ".join(said)


def needs_look(device: FleetDevice) -> bool:
    """Whether somebody should look at it; a device that was shut out is as it should be."""
    if device.state == "revoked":
        return False
    return bool(
        device.problems
        or device.silent_since is not None
        or device.state in {"away", "doubled", "too old", "too new"}
        or device.model_state in {"failed", "rolled_back"}
        or _machine(device)
    )


def _problem(trouble: Trouble, now_ns: int) -> str:
    since = "" if trouble.since is None else f" (for {long(now_ns - trouble.since)})"
    return f"{trouble.about}: {trouble.text}{since}"


def _presence(device: FleetDevice, now_ns: int) -> list[str]:
    if device.state == "revoked":
        return ["shut out by the operator"]
    if device.state == "doubled":
        return ["two installations run under this name"]
    if device.refused_by is not None:
        return [f"{device.state}: it speaks {device.wire} of the wire, not {device.refused_by}"]
    if device.state == "never seen":
        return ["admitted, and never seen"]
    if device.silent_since is not None:
        return [f"nothing that can be believed came for {long(now_ns - device.silent_since)}"]
    if device.state == "away":
        return [f"away for {long(now_ns - device.away_since)}" if device.away_since else "away"]
    return []


def _model(device: FleetDevice) -> list[str]:
    version, because = (
        device.model_version,
        f": {device.model_reason}" if device.model_reason else "",
    )
    if device.model_state == "failed":
        return [f"model {version} failed{because}"]
    if device.model_state == "rolled_back":
        return [f"model {version} was rolled back{because}"]
    return []


def _machine(device: FleetDevice) -> list[str]:
    found = []
    health = device.health
    if health is not None and health.celsius is not None and health.celsius >= HOT_CELSIUS:
        found.append(f"{health.celsius:.0f} °C")
    if device.state == "online" and device.outbox is not None and device.outbox >= _OUTBOX:
        found.append(
            f"{count_of(device.outbox, 'message')} {agree(device.outbox, 'waits', 'wait')} there"
        )
    return found


def heard(device: FleetDevice, now_ns: int) -> str:
    """Return when it was heard, or the word for its state."""
    if device.state in {"online", "unknown"} and device.last_seen is not None:
        return ago(device.last_seen, now_ns)
    return device.state
