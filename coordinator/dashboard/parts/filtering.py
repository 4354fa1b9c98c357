"""Which devices a list shows: `hazel`, `model:12`, `state:away`, `problem`; words add up."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.dashboard.parts.remarks import needs_look
from coordinator.reading.answers import FleetDevice


def chosen(devices: Iterable[FleetDevice], text: str) -> list[FleetDevice]:
    """Return the devices that every word of `text` fits."""
    words = text.lower().split()
    return [device for device in devices if all(_fits(device, word) for word in words)]


def _fits(device: FleetDevice, word: str) -> bool:
    key, colon, value = word.partition(":")
    if colon and key == "model":
        version = "none" if device.active_version is None else str(device.active_version)
        return version == value
    if colon and key == "state":
        return device.state.replace(" ", "-") == value
    if word == "problem":
        return needs_look(device)
    return word in device.name.lower()
