"""Filter of a list of devices; words add up.

`hazel`, `model:12`, `program:1.0.0`, `state:away`, `problem`, `hindered`, `pinned`, `tag:site` and
`tag:site=orchard-1`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from fleetledger.coordinator.dashboard.parts.device_remarks import needs_look
from fleetledger.coordinator.reports.answers import FleetDevice
from fleetledger.schemas.errors import SchemaError
from fleetledger.schemas.tags import TagName, TagSelector, TagValue, all_fit

_TAG = "tag:"


def chosen(devices: Iterable[FleetDevice], text: str) -> list[FleetDevice]:
    """Return the devices that every word of `text` fits."""
    words = text.split()
    return [device for device in devices if all(_fits(device, word) for word in words)]


def tag_selectors(text: str) -> tuple[TagSelector, ...]:
    """Return the tags among the words; what cannot be one is left out, since nobody has it."""
    found = []
    for word in text.split():
        with suppress(SchemaError):
            if word.lower().startswith(_TAG):
                found.append(TagSelector.parse(word[len(_TAG) :]))
    return tuple(found)


def _fits(device: FleetDevice, given: str) -> bool:
    word = given.lower()
    if word.startswith(_TAG):
        selectors = tag_selectors(given)
        tags = {TagName(name): TagValue(value) for name, value in device.tags.items()}
        return bool(selectors) and all_fit(selectors, tags)
    key, colon, value = word.partition(":")
    if colon and key == "model":
        version = "none" if device.active_version is None else str(device.active_version)
        return version == value
    if colon and key == "program":
        return (device.agent_version or "none").lower() == value
    if colon and key == "state":
        return device.state.replace(" ", "-") == value
    if word == "pinned":
        return device.pinned is not None or word in device.name.lower()
    if word == "problem":
        return needs_look(device)
    if word == "hindered":
        return device.hindered_since is not None or word in device.name.lower()
    return word in device.name.lower()
