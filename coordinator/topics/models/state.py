"""What the state knows of models: solved, desired, and run by devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import fsum
from typing import Literal, cast

from fleetledger.coordinator.topics.devices.state import DevicesState
from fleetledger.coordinator.topics.lineages.entries import Lineage
from fleetledger.coordinator.topics.lineages.state import LineagesState
from fleetledger.coordinator.topics.models import entries
from fleetledger.coordinator.topics.models import offers as model_offers
from fleetledger.schemas.models import ModelStatus
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from fleetledger.schemas.variants import VariantName


@dataclass(frozen=True)
class ReportedLosses:
    """What one device measured on its held-out images."""

    images: int
    losses: tuple[int, ...]


@dataclass
class ModelVersion:
    """A model that the fleet learned, or the operator imported; exported once it has a manifest."""

    version: int
    made: entries.ModelSolved | entries.ModelImported
    solved_index: int
    """Of the entry that made it."""
    solved_ns: int
    lineage: Lineage | None
    """The one that it is of; None where it was imported."""
    exported: entries.ModelExported | None = None
    exported_index: int | None = None
    exported_ns: int | None = None
    descends: set[DeviceId] = field(default_factory=set)
    """Devices of whose retracted answers to rounds it descends."""

    @property
    def solved(self) -> entries.ModelSolved:
        """How the fleet learned it; asked only where it did."""
        assert self.lineage is not None, "the model was imported"
        return cast("entries.ModelSolved", self.made)

    @property
    def imported(self) -> entries.ImportedFiles | None:
        """How it was imported; None where the fleet learned it."""
        return None if self.lineage is not None else cast("entries.ImportedFiles", self.made)

    @property
    def source(self) -> str | None:
        """Name of the ONNX file that it was imported from; None where the fleet learned it."""
        return None if self.imported is None else self.imported.name

    @property
    def digest(self) -> Digest:
        """Digest of what it belongs to: its lineage, or the frozen part of what was imported."""
        imported = self.imported
        return self.solved.lineage if imported is None else imported.frozen.digest

    @property
    def contributions(self) -> int:
        """Number of contributions in its sum; 0 where it was imported."""
        return 0 if self.imported is not None else self.solved.contributions

    @property
    def aggregate(self) -> Digest:
        """Digest of the sum that it was solved of, of the weights, or of the file imported."""
        imported = self.imported
        return self.solved.aggregate if imported is None else imported.file.digest

    @property
    def head(self) -> Digest:
        """Digest of its head."""
        imported = self.imported
        return self.solved.head if imported is None else imported.head.digest

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
    group: model_offers.GroupOffer | None = None
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
    index: int
    """Of the entry."""

    @property
    def of_learning(self) -> bool:
        """Return whether it was to be made of what devices gave."""
        return self.ledger_size is not None or self.weights_index is not None


@dataclass(frozen=True)
class Withheld:
    """A model that lacks classes of the one before, and waits for a person."""

    version: int
    lacks: tuple[ClassName, ...]
    index: int
    """Of the entry."""


@dataclass(frozen=True)
class DeviceMeasurement:
    """What a device measured of a version last, over all classes.

    `correct` and `total` are right answers and held-out samples; of pixels sums of intersections
    and unions.
    """

    index: int
    """Of the entry."""
    correct: int
    total: int
    mean_iou: float | None
    """Of pixels: mean over the classes that have a union, the background among them."""

    @classmethod
    def of(cls, body: entries.DeviceEvaluated, index: int) -> DeviceMeasurement:
        """Return what an evaluation comes to."""
        results = body.evaluation.results.values()
        shares = [result.correct / result.total for result in results if result.total]
        return cls(
            index,
            sum(result.correct for result in results),
            sum(result.total for result in results),
            sum(shares) / len(shares) if body.answers == "pixels" and shares else None,
        )

    @property
    def share(self) -> float | None:
        """Share of held-out samples that it was right for; of pixels the mean IoU."""
        if self.mean_iou is not None:
            return self.mean_iou
        return self.correct / self.total if self.total else None


@dataclass(frozen=True)
class MeasuredAll:
    """What all devices measured of a version last."""

    devices: int = 0
    index: int = -1
    """Of the newest of their entries."""
    correct: int = 0
    total: int = 0
    mean_iou: float | None = None
    """Of pixels: mean over devices."""

    @property
    def accuracy(self) -> float | None:
        """Share of held-out samples that it was right for; of pixels the mean IoU."""
        if self.mean_iou is not None:
            return self.mean_iou
        return self.correct / self.total if self.total else None

    @classmethod
    def of(cls, found: Mapping[DeviceId, DeviceMeasurement]) -> MeasuredAll:
        """Sum what devices measured."""
        one_by_one = found.values()
        shares = [one.mean_iou for one in one_by_one if one.mean_iou is not None]
        return cls(
            devices=len(found),
            index=max((one.index for one in one_by_one), default=-1),
            correct=sum(one.correct for one in one_by_one),
            total=sum(one.total for one in one_by_one),
            mean_iou=fsum(shares) / len(shares) if shares else None,
        )


MEASURED_VERSIONS = 10
"""Versions of which each device's measurement is kept, those that were measured last.

Of others there are the sums. One that is measured again after ten others begins anew, so that a
year of models does not grow the state by versions times devices.
"""
SEEN_VERSIONS = 50
"""Versions of which it is known what a device said last; what it says of older ones is recorded
again."""


_BECAME: Mapping[str, Literal["active", "failed", "rolled_back"]] = {
    "active": "active",
    "settled": "active",
    "failed": "failed",
    "rolled_back": "rolled_back",
}
"""End of a version on a device, by what the device reports; being compared is none."""


@dataclass
class Running:
    """What one device says of the models that it was given."""

    active_version: int | None = None
    variant: VariantName | None = None
    """The variant of the frozen part that runs; None for the reference."""
    model_version: int | None = None
    """The version of which it said last what became of it, apart from its being compared."""
    model_state: Literal["", "active", "failed", "rolled_back"] = ""
    model_reason: str = ""
    model_index: int | None = None
    """The entry with these three."""
    model_versions_seen: dict[int, str] = field(default_factory=dict)
    """Version to the last state reported for it, of the last `SEEN_VERSIONS` that were."""
    said_index: int = -1
    """The entry of what it said last of any version."""
    evaluated_version: int | None = None
    evaluated_variant: VariantName | None = None
    measured: DeviceMeasurement | None = None
    """What came of this evaluation."""

    @property
    def refused(self) -> int | None:
        """The version that the device did not keep, as it said last."""
        return None if self.model_state in {"", "active"} else self.model_version

    def report(self, status: ModelStatus, index: int) -> None:
        """Take in what became of a version."""
        self.saw(status.version, status.state)
        self.said_index = index
        if status.state == "active":
            self.variant = status.variant
        if (became := _BECAME.get(status.state)) is not None:
            self.model_state, self.model_index = became, index
            self.model_version, self.model_reason = status.version, status.reason

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
    held_index: int | None = None
    """The entry by which solved models wait for the operator; None where they do not."""
    withheld_last: Withheld | None = None
    """The last that lacked classes, whatever became of it."""
    measured: dict[int, dict[DeviceId, DeviceMeasurement]] = field(default_factory=dict)
    """Versions, the one measured last at the end."""
    measured_before: dict[int, MeasuredAll] = field(default_factory=dict)
    """Sums of versions that `measured` has no more."""
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

    @property
    def held(self) -> bool:
        """Whether solved models wait for the operator."""
        return self.held_index is not None

    @property
    def withheld(self) -> Withheld | None:
        """Why the newest model waits for a person, if it lacks classes and nobody pushed it."""
        found = self.withheld_last
        if found is None or found.version != self.learned or found.version in self.stack:
            return None
        return found

    @property
    def newest_version(self) -> int | None:
        """The newest version, learned or imported."""
        return next(reversed(self.by_version), None)

    @property
    def desired_of_all(self) -> int | None:
        """The version that all devices are to run that nothing else is said of."""
        return None if self.desired is None else self.desired.version

    @property
    def leading(self) -> int | None:
        """The version that all devices are to run, or the newest where none is that."""
        return self.newest_version if self.desired_of_all is None else self.desired_of_all

    @property
    def canaries(self) -> dict[int, tuple[DeviceId, ...]]:
        """Devices that were told to run a version of their own, by that version."""
        said = self.desired_by_device.items()
        own = sorted((item.version, name) for name, item in said if item.group is None)
        found: dict[int, tuple[DeviceId, ...]] = {}
        for version, name in own:
            found[version] = (*found.get(version, ()), name)
        return found

    @property
    def pins(self) -> dict[DeviceId, int]:
        """Devices that are pinned, with their versions."""
        return {name: self.pinned[name].version for name in sorted(self.pinned)}

    @property
    def running(self) -> Counter[int]:
        """Number of devices on which each version runs."""
        found = (self.of(name).active_version for name in self.devices.admitted)
        return Counter(version for version in found if version is not None)

    def name_of_state(self, version: int) -> str:
        """Return the word for what became of a version: solved, imported, exported or desired."""
        model = self.by_version[version]
        if version == self.desired_of_all:
            return "desired"
        if model.exported is not None:
            return "exported"
        return "solved" if model.imported is None else "imported"

    def measure(self, version: int, device: DeviceId, found: DeviceMeasurement) -> None:
        """Take in what a device measured."""
        there = self.measured.pop(version, {})
        there[device] = found
        self.measured[version] = there  # what is measured last lies last
        self.measured_before.pop(version, None)
        if len(self.measured) > MEASURED_VERSIONS:
            oldest = next(iter(self.measured))
            self.measured_before[oldest] = MeasuredAll.of(self.measured.pop(oldest))

    def measured_all(self, version: int) -> MeasuredAll:
        """Return the sum of what devices measured of a version."""
        if version in self.measured:
            return MeasuredAll.of(self.measured[version])
        return self.measured_before.get(version, MeasuredAll())

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

    def to_run(self, device: DeviceId) -> int | None:
        """Return the version that this device is to run, whatever it compares with it."""
        desired = self.desired_for(device)
        if desired is not None and desired.group is not None and desired.group.mode == "shadow":
            desired = self.desired_by_device.get(device) or self.desired
        return None if desired is None else desired.version

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
        self.offers = model_offers.after_everybodys(self.offers, desired)
        self.desired_by_device = {
            device: item
            for device, item in self.desired_by_device.items()
            if desired.spares and item.group is None
        }

    def offer_group(self, desired: DesiredVersion) -> None:
        """Take in what a group is offered; to run it ends that it is only compared."""
        self.offers = model_offers.after_offer(self.offers, desired)

    def _offered(self, device: DeviceId) -> DesiredVersion | None:
        """Return what a rollout offers a device."""
        return model_offers.newest_offer(self.offers, lambda group: self.is_offered(device, group))

    def is_offered(self, device: DeviceId, group: model_offers.GroupOffer) -> bool:
        """Whether a device is of a group, and can do what that is to do."""
        known = self.devices.admitted.get(device)
        if known is None or not group.has(device, known.tags):
            return False
        return group.mode == "run" or self.of(device).active_version is not None

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
