"""The operator's commands about devices."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fleetledger.coordinator.topics.devices.choice import DeviceChoice
from fleetledger.coordinator.topics.devices.entries import MAX_REASON
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.tags import MAX_TAGS, TagName, Tags
from fleetledger.schemas.values import BootId, DeviceId


class AdmitDevice(Strict):
    """Let a device take part."""

    verb: Literal["admit"] = "admit"
    device: DeviceId


class RetireDevice(Strict):
    """Take a device out of the fleet."""

    verb: Literal["retire"] = "retire"
    device: DeviceId
    reason: str = Field(min_length=1, max_length=MAX_REASON)
    retracts: bool = False
    """Whether what it gave leaves the sum, too."""


class SettleTwins(Strict):
    """Say which of two installations under one name goes on."""

    verb: Literal["settle-twins"] = "settle-twins"
    device: DeviceId
    installation: BootId
    """Any name that it has: of a run, or its own where the other has another."""


class TagDevices(DeviceChoice):
    """Put tags on devices, and take others away."""

    verb: Literal["tag-devices"] = "tag-devices"
    put: Tags = Field(default={})
    removed: tuple[TagName, ...] = Field(default=(), max_length=MAX_TAGS)


DeviceCommand = AdmitDevice | RetireDevice | SettleTwins | TagDevices
