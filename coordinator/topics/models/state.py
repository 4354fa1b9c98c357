"""What the state knows of models: solved, desired, and run by devices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from fleetledger.coordinator.topics.devices.state import DevicesState
from fleetledger.coordinator.topics.lineages.state import LineagesState
from fleetledger.coordinator.topics.models.offers import after_everybodys, after_offer, newest_offer
from fleetledger.schemas.rollouts import SHADOW
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.schemas.variants import VariantName

if TYPE_CHECKING:
    from fleetledger.coordinator.topics.lineages.entries import Lineage
    from fleetledger.coordinator.topics.models.entries import (
        ImportedFiles,
        ModelExported,
        ModelSolved,
    )
    from fleetledger.coordinator.topics.models.offers import GroupOffer


@dataclass(frozen=True)
class ReportedLosses:
    """What one device measured on its held-out images."""

    images: int
    losses: tuple[int, ...]


@dataclass
class ModelVersion:
    """A model that the fleet learned, or the operator imported; exported once it has a manifest."""

    version: int
    made: ModelSolved | ImportedFiles
    solved_index: int
    """Of the entry that made it."""
    solved_ns: int
    lineage: Lineage | None
    """The one that it is of; None where it was imported."""
    exported: ModelExported | None = None
    exported_ns: int | None = None

    @property
    def solved(self) -> ModelSolved:
        """How the fleet learned it; asked only where it did."""
        assert self.lineage is not None, "the model was imported"
        return cast("ModelSolved", self.made)

    @property
    def imported(self) -> ImportedFiles | None:
        """How it was imported; None where the fleet learned it."""
        return None if self.lineage is not None else cast("ImportedFiles", self.made)

    @property
    def of_pixels(self) -> bool:
        """Whether it gives each pixel of a picture a class."""
        if self.lineage is not None:
            return self.lineage.segments
        return self.imported is not None and self.imported.answers == "pixels"


@dataclass
class DesiredVersion:
    """The version that devices are to run, and the entry that says so."""

    version: int
    action: int
    devices: tuple[DeviceId, ...] | None = None
    """Those that the entry names; None for all."""
    spares: bool = False
    """Whether devices that were told a version of their own keep it."""
    group: GroupOffer | None = None
    """The group of a rollout that is offered it."""
    pins: bool | None = None
    """Whether the entry pins its devices to the version (True) or ends a pin (False); None for
    neither."""


@dataclass(frozen=True)
class Failure:
    """A model that could not be made: of what, and why; see `ModelFailed`."""

    ledger_size: int | None
    rows: Digest | None
    weights_index: int | None
    reason: str

    @property
    def of_learning(self) -> bool:
        """Return whether it was to be made of what devices gave."""
        return self.ledger_size is not None or self.weights_index is not None


SEEN_VERSIONS = 50
"""Versions of which it is known what a device said last; what it says of older ones is recorded
again."""


@dataclass
class Running:
    """What one device says of the models that it was given."""

    active_version: int | None = None
    variant: VariantName | None = None
    """The variant of the frozen part that runs; None for the reference."""
    model_state: str = ""
    model_reason: str = ""
    model_versions_seen: dict[int, str] = field(default_factory=dict)
    """Version to the last state reported for it, of the last `SEEN_VERSIONS` that were."""
    said_index: int = -1
    """The entry of what it said last of any version."""
    evaluated_version: int | None = None
    evaluated_variant: VariantName | None = None

    def saw(self, version: int, state: str) -> None:
        """Note what is said of a version."""
        self.model_versions_seen.pop(version, None)  # what is said last lies last
        self.model_versions_seen[version] = state
        if len(self.model_versions_seen) > SEEN_VERSIONS:
            del self.model_versions_seen[next(iter(self.model_versions_seen))]


@dataclass
class ModelsState:
    """Models, and which of them devices are to run."""

    lineages: LineagesState = field(repr=False, compare=False)
    """A part before this one, to read from."""
    devices: DevicesState = field(repr=False, compare=False)
    """Another one."""
    by_version: dict[int, ModelVersion] = field(default_factory=dict)
    """Versions in ascending order."""
    newest_by_lineage: dict[Digest, int] = field(default_factory=dict)
    """Newest version that the fleet learned, by lineage."""
    unpacked_versions: list[int] = field(default_factory=list)
    """Imported versions without a manifest, oldest first."""
    learned: int | None = None
    """The newest version that the fleet learned."""
    in_a_row: int = 0
    """Number of models learned since something made the next one urgent."""
    failed: Failure | None = None
    """The last failure to make a model, until one is made."""
    desired: DesiredVersion | None = None
    """What all devices are to run."""
    stack: list[int] = field(default_factory=list)
    """Versions that all devices were to run, oldest first, without what was gone back from."""
    desired_by_device: dict[DeviceId, DesiredVersion] = field(default_factory=dict)
    offers: list[DesiredVersion] = field(default_factory=list)
    """What groups of rollouts are offered since then, oldest first."""
    pinned: dict[DeviceId, DesiredVersion] = field(default_factory=dict)
    """What devices run that nothing else reaches."""
    unpinned: dict[DeviceId, DesiredVersion] = field(default_factory=dict)
    """What devices went on with after a pin; it counts until something newer is said of them."""
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
        """The newest model that the fleet learned."""
        return None if self.learned is None else self.by_version[self.learned]

    def newest_of(self, lineage: Digest) -> ModelVersion | None:
        """Return the newest model that the fleet learned in a lineage."""
        version = self.newest_by_lineage.get(lineage)
        return None if version is None else self.by_version[version]

    def add(self, model: ModelVersion) -> None:
        """Take in a new version."""
        self.by_version[model.version] = model
        if model.lineage is None:
            self.unpacked_versions.append(model.version)
        else:
            self.newest_by_lineage[model.lineage.digest] = model.version

    @property
    def all_learned(self) -> list[ModelVersion]:
        """The models that the fleet learned."""
        return [model for model in self.by_version.values() if model.lineage is not None]

    @property
    def unpacked(self) -> ModelVersion | None:
        """An imported model that has no manifest yet, unless one could not be written."""
        if self.failed is not None and not self.failed.of_learning:
            return None
        return next((self.by_version[version] for version in self.unpacked_versions), None)

    @property
    def learning_failed(self) -> Failure | None:
        """The failure to make a model of what devices gave, until one is made."""
        return self.failed if self.failed is not None and self.failed.of_learning else None

    @property
    def next_version(self) -> int:
        """The version of the next model."""
        return next(reversed(self.by_version), 0) + 1

    def of(self, device: DeviceId) -> Running:
        """Return what a device says of its models, to read."""
        return self.by_device.get(device) or Running()

    def desired_for(self, device: DeviceId) -> DesiredVersion | None:
        """Return the version that this device is to run, or to compare with what it runs.

        What it is pinned to; else the newest of what is said of it, and of how it went on after a
        pin.
        """
        if device in self.pinned:
            return self.pinned[device]
        desired, after = self.unpinned_desire(device), self.unpinned.get(device)
        if after is None or (desired is not None and desired.action > after.action):
            return desired
        return after

    def unpinned_desire(self, device: DeviceId) -> DesiredVersion | None:
        """Return the same of a device that is not pinned and never was.

        The newest of what was pushed to it and of what its group is offered; else everybody's.
        """
        own, offered = self.desired_by_device.get(device), self._offered(device)
        if own is None or offered is None:
            return own or offered or self.desired
        return max(own, offered, key=lambda item: item.action)

    def offer_all(self, desired: DesiredVersion) -> None:
        """Take in what all devices are to run: with a rollout's last group its others stay."""
        self.desired = desired
        self.offers = after_everybodys(self.offers, desired)
        self.desired_by_device = {
            device: item
            for device, item in self.desired_by_device.items()
            if desired.spares and item.group is None
        }

    def offer_group(self, desired: DesiredVersion) -> None:
        """Take in what a group is offered; to run it ends that it is only compared."""
        self.offers = after_offer(self.offers, desired)

    def _offered(self, device: DeviceId) -> DesiredVersion | None:
        """Return what a rollout offers a device."""
        return newest_offer(self.offers, lambda group: self.is_offered(device, group))

    def is_offered(self, device: DeviceId, group: GroupOffer) -> bool:
        """Whether a device is of a group, and can do what that is to do."""
        known = self.devices.admitted.get(device)
        if known is None or not group.has(device, known.tags):
            return False
        if group.mode == "run":
            return True
        able, runs = known.capabilities, self.of(device).active_version
        return runs is not None and able is not None and SHADOW in able.features

    @property
    def all_desired(self) -> list[DesiredVersion]:
        """Return what any device is to run: that of all first, then as the entries stand."""
        after = (item for name, item in self.unpinned.items() if self.desired_for(name) is item)
        some = (*self.desired_by_device.values(), *self.offers, *self.pinned.values(), *after)
        own = {item.action: item for item in some}
        return [*filter(None, (self.desired,)), *(own[action] for action in sorted(own))]

    def devices_of(self, desired: DesiredVersion) -> tuple[DeviceId, ...] | None:
        """Return the devices that are to run it; None for all that nothing else is said of."""
        if desired.devices is None:
            return None
        found = (self.desired_by_device, self.pinned, self.unpinned)
        said = (pair for known in found for pair in known.items())
        return tuple(device for device, item in said if item.action == desired.action)
