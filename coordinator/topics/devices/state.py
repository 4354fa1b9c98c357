"""What the state knows of who devices are."""

from __future__ import annotations

from dataclasses import dataclass, field

from schemas.presence import Capabilities
from schemas.tags import Tags
from schemas.values import BootId, DeviceId


@dataclass(frozen=True)
class Doubled:
    """Two installations under one name, each by a run of it and by what it calls itself."""

    runs: tuple[BootId, BootId]
    installations: tuple[BootId, BootId]


@dataclass
class Device:
    """An admitted device."""

    admitted_index: int
    boot: BootId | None = None
    former_boot: BootId | None = None
    """The run before the newest birth."""
    formers: tuple[BootId, ...] = ()
    """Runs of its installation before the present one, as its birth named them."""
    silent: bool = False
    """Whether nothing came of it for long that could be believed."""
    installation: BootId | None = None
    capabilities: Capabilities | None = None
    tags: Tags = field(default_factory=dict)
    """What its owner and the operator say of it."""
    doubled: Doubled | None = None
    """The installations between which the operator has to choose."""
    settled: dict[BootId, bool] = field(default_factory=dict)
    """Runs between which the operator chose, and whether their installation goes on."""
    shut_out: set[BootId] = field(default_factory=set)
    """Names of installations that do not, where the one that does has another."""


@dataclass
class DevicesState:
    """Who takes part."""

    admitted: dict[DeviceId, Device] = field(default_factory=dict)
    """In the order of their admission, which is that of entries about several of them."""
