"""The operator's commands about devices."""

from __future__ import annotations

from typing import Literal

from schemas.message import Strict
from schemas.values import BootId, DeviceId


class AdmitDevice(Strict):
    """Let a device take part."""

    verb: Literal["admit"] = "admit"
    device: DeviceId


class SettleTwins(Strict):
    """Say which of two installations under one name goes on."""

    verb: Literal["settle-twins"] = "settle-twins"
    device: DeviceId
    installation: BootId
    """Any name that it has: of a run, or its own where the other has another."""


DeviceCommand = AdmitDevice | SettleTwins
