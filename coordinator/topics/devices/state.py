"""What the state knows of who devices are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fleetledger.schemas.presence import Capabilities
from fleetledger.schemas.tags import TagName, TagValue
from fleetledger.schemas.values import BootId, DeviceId
from fleetledger.schemas.wire import WireRange

_NOBODY: Mapping[BootId, bool] = {}
_FIRST_WIRE = WireRange()
NO_TAGS: Mapping[TagName, TagValue] = {}


@dataclass(frozen=True)
class Doubled:
    """Two installations under one name, each by a run of it and by what it calls itself."""

    runs: tuple[BootId, BootId]
    installations: tuple[BootId, BootId]
    index: int
    """Of the entry that says so."""


@dataclass(frozen=True)
class Retirement:
    """The operator took a device out of the fleet."""

    index: int
    """Of the entry that says so."""
    time_ns: int
    reason: str


@dataclass(frozen=True)
class ReportedProblem:
    """What a device said last of something that somebody should mend."""

    index: int
    """Of the entry with it."""
    time_ns: int
    text: str


@dataclass(slots=True)
class Device:
    """An admitted device; of most nothing was ever chosen, and all that is empty is shared."""

    admitted_index: int
    admitted_ns: int = 0
    """When it was admitted last."""
    boot: BootId | None = None
    born_index: int | None = None
    """The entry of its newest birth."""
    former_boot: BootId | None = None
    """The run before the newest birth."""
    formers: tuple[BootId, ...] = ()
    """Runs of its installation before the present one, as its birth named them."""
    silent_ns: int | None = None
    """Since when nothing came of it that could be believed, where that is long."""
    retirement: Retirement | None = None
    installation: BootId | None = None
    capabilities: Capabilities | None = None
    doubled: Doubled | None = None
    """The installations between which the operator has to choose."""
    settled: Mapping[BootId, bool] = field(default_factory=lambda: _NOBODY)
    """Runs between which the operator chose, and whether their installation goes on."""
    shut_out: frozenset[BootId] = frozenset()
    """Names of installations that do not, where the one that does has another."""
    owners_tags: Mapping[TagName, TagValue] = field(default_factory=lambda: NO_TAGS)
    """As its newest birth said them."""
    operators_tags: Mapping[TagName, TagValue | None] = field(default_factory=lambda: NO_TAGS)
    """What the operator put over them; None for an owner's tag that does not count."""
    wire: WireRange = _FIRST_WIRE
    """Versions of the wire that it speaks, by its newest birth."""
    refused_by: WireRange | None = None
    """Versions that the coordinator speaks, where the device speaks none of them."""

    @property
    def silent(self) -> bool:
        """Whether nothing came of it for long that could be believed."""
        return self.silent_ns is not None

    @property
    def led(self) -> bool:
        """Whether the coordinator and the device have a version of the wire in common."""
        return self.refused_by is None

    @property
    def tags(self) -> Mapping[TagName, TagValue]:
        """What it is chosen by: the owner's tags, and the operator's over them."""
        if not self.operators_tags:
            return self.owners_tags
        both = {**self.owners_tags, **self.operators_tags}
        return {name: value for name, value in both.items() if value is not None}

    def retagged(
        self, put: Mapping[TagName, TagValue], removed: Iterable[TagName]
    ) -> Mapping[TagName, TagValue | None]:
        """Return the operator's tags after some were put and some taken away."""
        said = {**self.operators_tags, **put}
        for name in removed:
            said.pop(name, None)
            if name in self.owners_tags:
                said[name] = None
        return said


@dataclass
class DevicesState:
    """Who takes part."""

    admitted: dict[DeviceId, Device] = field(default_factory=dict)
    """In the order of their admission, which is that of entries about several of them."""
    retired: dict[DeviceId, Device] = field(default_factory=dict)
    """Devices that took part and do not any more; nothing waits for them."""
    problems: dict[DeviceId, dict[str, ReportedProblem]] = field(default_factory=dict)
    """What devices, and the proxy, said last in their present runs, the newest at the end."""

    @property
    def doubled(self) -> dict[DeviceId, Doubled]:
        """Devices whose name two installations have, and that wait for the operator, by name."""
        found = ((name, device.doubled) for name, device in sorted(self.admitted.items()))
        return {name: doubled for name, doubled in found if doubled is not None}

    @property
    def tags(self) -> dict[DeviceId, Mapping[TagName, TagValue]]:
        """Every device with its tags."""
        return {name: device.tags for name, device in self.admitted.items()}
