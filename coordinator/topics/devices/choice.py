"""Choice of devices by name, by tags, or both, the same in every command.

Rules and readers know tags from the state, and choose by `chosen`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import Field
from typing_extensions import Self

from fleetledger.coordinator.core.phrases import some
from fleetledger.coordinator.errors import CommandError
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.tags import TagName, TagSelector, TagValue, all_fit
from fleetledger.schemas.values import DeviceId

MAX_SELECTORS = 16

TagsByDevice = Mapping[DeviceId, Mapping[TagName, TagValue]]


class DeviceChoice(Strict):
    """Devices by their names and tags; all of them where it names neither."""

    devices: tuple[DeviceId, ...] | None = None
    """Those that may be meant; None for all."""
    tags: tuple[TagSelector, ...] = Field(default=(), max_length=MAX_SELECTORS)
    """Of these are meant those that all of the selectors fit."""

    @property
    def is_open(self) -> bool:
        """Whether it means every device, whoever comes later too."""
        return self.devices is None and not self.tags

    @classmethod
    def read(cls, devices: Iterable[str] | None, tags: Iterable[str] | None) -> Self:
        """Read what people write; raise `InvalidValueError`, or `SchemaError` for a tag."""
        return cls(
            devices=tuple(map(DeviceId, devices)) if devices else None,
            tags=tuple(map(TagSelector.parse, tags or ())),
        )


def chosen(choice: DeviceChoice, known: TagsByDevice) -> tuple[DeviceId, ...]:
    """Return the devices that are meant, each once, of those that are `known` with their tags.

    Raises `CommandError` for a name that is not known, and where nobody is meant.
    """
    named = tuple(known) if choice.devices is None else tuple(dict.fromkeys(choice.devices))
    for device in named:
        if device not in known:
            raise CommandError(f"device: {str(device)!r} is not admitted to this fleet")
    found = tuple(device for device in named if all_fit(choice.tags, known[device]))
    if not found:
        raise CommandError(_nobody(choice))
    return found


def describe_tags(tags: Mapping[str, str]) -> str:
    """Return tags as people write them."""
    return ", ".join(f"{name}={value}" for name, value in sorted(tags.items()))


def _nobody(choice: DeviceChoice) -> str:
    if not choice.tags:
        return "device: none is admitted to this fleet"
    of = "" if choice.devices is None else f" of {some(choice.devices)}"
    tags = " and ".join(map(str, choice.tags))
    return f"tag: no device{of} has {tags}; `fleetledger device list` shows the tags of all"
