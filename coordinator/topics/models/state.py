"""What the state knows of models: solved, desired, and run by devices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coordinator.topics.lineages.state import LineagesState
from schemas.values import ClassName, DeviceId

if TYPE_CHECKING:
    from coordinator.topics.lineages.entries import Lineage
    from coordinator.topics.models.entries import ModelExported, ModelSolved


@dataclass(frozen=True)
class ReportedLosses:
    """What one device measured on its held-out images."""

    images: int
    losses: tuple[int, ...]


@dataclass
class ModelVersion:
    """A solved model; exported once it has a manifest."""

    solved: ModelSolved
    solved_index: int
    solved_ns: int
    lineage: Lineage
    exported: ModelExported | None = None
    exported_ns: int | None = None


@dataclass
class DesiredVersion:
    """The version that devices are to run, and the entry that says so."""

    version: int
    action: int
    devices: tuple[DeviceId, ...] | None = None
    """Those that the entry names; None for all."""
    spares: bool = False
    """Whether devices that were told a version of their own keep it."""


@dataclass(frozen=True)
class Failure:
    """A model that could not be made: of what, and why."""

    inputs: tuple[int, ...]
    class_names: tuple[ClassName, ...]
    reason: str


@dataclass
class Running:
    """What one device says of the models that it was given."""

    active_version: int | None = None
    model_state: str = ""
    model_reason: str = ""
    model_versions_seen: dict[int, str] = field(default_factory=dict)
    """Version to the last state reported for it."""
    evaluated_version: int | None = None


@dataclass
class ModelsState:
    """Models, and which of them devices are to run."""

    lineages: LineagesState = field(repr=False, compare=False)
    """A part before this one, to read from."""
    by_version: dict[int, ModelVersion] = field(default_factory=dict)
    failed: Failure | None = None
    """The last failure to make a model, until one is made."""
    desired: DesiredVersion | None = None
    """What all devices are to run."""
    stack: list[int] = field(default_factory=list)
    """Versions that all devices were to run, oldest first, without what was gone back from."""
    desired_by_device: dict[DeviceId, DesiredVersion] = field(default_factory=dict)
    held: bool = False
    """Whether solved models wait for the operator."""
    by_device: dict[DeviceId, Running] = field(default_factory=dict)
    """Of devices that ever said something of a model."""
    logit_scale: float | None = None
    """The fitted inverse temperature; None while models have the method's own."""
    calibrated_version: int | None = None
    """The newest version of which devices sent losses."""
    calibration: dict[DeviceId, ReportedLosses] = field(default_factory=dict)
    """The losses of that version."""

    @property
    def newest(self) -> ModelVersion | None:
        """The model with the highest version."""
        return self.by_version[max(self.by_version)] if self.by_version else None

    @property
    def next_version(self) -> int:
        """The version of the next model."""
        return max(self.by_version, default=0) + 1

    def of(self, device: DeviceId) -> Running:
        """Return what a device says of its models, to read."""
        return self.by_device.get(device) or Running()

    def desired_for(self, device: DeviceId) -> DesiredVersion | None:
        """Return the version that this device is to run."""
        return self.desired_by_device.get(device, self.desired)

    @property
    def all_desired(self) -> list[DesiredVersion]:
        """Return what any device is to run: that of all first, then as the entries stand."""
        own = {item.action: item for item in self.desired_by_device.values()}
        return [*filter(None, (self.desired,)), *(own[action] for action in sorted(own))]

    def devices_of(self, desired: DesiredVersion) -> tuple[DeviceId, ...] | None:
        """Return the devices that are to run it; None for all that nothing else is said of."""
        if desired.devices is None:
            return None
        said = self.desired_by_device.items()
        return tuple(device for device, item in said if item.action == desired.action)
