"""How a device is: what it says of its own machine every minute, and nobody keeps for long."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.message import Items
from fleetledger.schemas.presence import PresenceMessage

MAX_ZONES = 32
"""Thermal zones of one message."""
MAX_PROBLEMS = 20
"""Problems of one message."""

Celsius = Annotated[float, Field(ge=-100, le=300)]
Count = Annotated[int, Field(ge=0, lt=2**63)]


class ThermalZone(Strict):
    """A place of the machine that has a thermometer."""

    zone: str = Field(min_length=1, max_length=60)
    celsius: Celsius


class HealthProblem(Strict):
    """Something that keeps the agent from its work, or will."""

    about: str = Field(min_length=1, max_length=40)
    text: str = Field(min_length=1, max_length=500)
    seconds: Count | None = None
    """For how long it has been so; left out where that is not known."""
    hinders: bool = Field(default=True, exclude_if=bool)
    """Whether it does so now; left out where it does."""


class DeviceHealth(PresenceMessage):
    """What a device says of its machine, every minute; what it cannot know it leaves out.

    Sent once, with QoS 0, and never stored in the ledger.
    """

    kind: ClassVar[str] = "device.health"
    provider: str | None = Field(default=None, max_length=60)
    """The ONNX Runtime execution provider that the active model runs on."""
    temperatures: Items[ThermalZone] = Field(default=(), max_length=MAX_ZONES)
    power_mode: str | None = Field(default=None, max_length=60)
    throttled: Count | None = None
    """How often the machine slowed itself down for heat or power since it was switched on."""
    free_disk_bytes: Count | None = None
    """Of the file system that the agent's folder lies on."""
    resident_bytes: Count | None = None
    """Of the agent, with the processes it started."""
    memory_limit_bytes: Count | None = None
    """How much the agent may take, where its service manager limits it."""
    inferences: Count | None = None
    """Samples that the active model was asked about since the agent began."""
    inference_p95_seconds: float | None = Field(default=None, ge=0, le=86400)
    """Of the newest hundreds of them, for one sample."""
    problems: Items[HealthProblem] = Field(default=(), max_length=MAX_PROBLEMS)
    """What hinders the agent, or will; left out where nothing does."""
