"""The coordinator's state: a fold of `transitions.apply` over the ledger, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.core import entries
from coordinator.core.descent import Descent
from coordinator.core.records import (
    Counted,
    CountedParts,
    Desired,
    Device,
    Losses,
    Made,
    Model,
    OldModels,
    Round,
    Stage,
    VoidRun,
    Weights,
)
from coordinator.core.registry import ClassRegistry
from coordinator.core.release_records import Trust
from schemas.values import ClassName, DeviceId, Digest


@dataclass
class State:
    """Everything that the rules decide on."""

    size: int = 0
    """Number of entries applied; the index of the next one."""
    devices: dict[DeviceId, Device] = field(default_factory=dict)
    classes: ClassRegistry = field(default_factory=ClassRegistry)
    lineage: entries.Lineage | None = None
    stages: dict[int, Stage] = field(default_factory=dict)
    counted: CountedParts = field(default_factory=CountedParts)
    """Contributions in the sum, by ledger index."""
    left_out: frozenset[int] = frozenset()
    """Of these, those of devices that gave more than their share, for now."""
    rounds: dict[int, Round] = field(default_factory=dict)
    """Of the current lineage, by number."""
    void: VoidRun = field(default_factory=VoidRun)
    """Rounds of the newest stage that came to nothing, one after the other."""
    last_round: int = 0
    """The highest number of a round, of any lineage."""
    weights: Weights | None = None
    """The network, where the fleet trains one."""
    made: dict[int, Made] = field(default_factory=dict)
    """What the rounds of the lineage gave, by number."""
    pruned: set[Digest] = field(default_factory=set)
    """What is kept no longer of what rounds gave."""
    former_made: dict[int, Made] = field(default_factory=dict)
    """What rounds of earlier lineages gave, until it is kept no longer."""
    old_models: OldModels = field(default_factory=OldModels)
    had_proxy: bool = False
    """Whether any lineage had a proxy, for which the broker may keep an order."""
    descent: Descent = field(default_factory=Descent)
    """Which models descend from answers to rounds."""
    models: dict[int, Model] = field(default_factory=dict)
    failed: entries.ModelFailed | None = None
    """The last failure to make a model, until one is made."""
    desired: Desired | None = None
    fleet_models: list[int] = field(default_factory=list)
    """Versions that all devices were to run, oldest first, without what was gone back from."""
    desired_by_device: dict[DeviceId, Desired] = field(default_factory=dict)
    trust: Trust = field(default_factory=Trust)
    """Root documents and releases; empty where models go out unsigned."""
    held: bool = False
    corrections: int = 0
    """How often the operator has set the calendar right."""
    last_report_ns: int | None = None
    """When a transition was last reported."""
    logit_scale: float | None = None
    """The fitted inverse temperature; None while models have the method's own."""
    calibrated_version: int | None = None
    """The newest version of which devices sent losses."""
    calibration: dict[DeviceId, Losses] = field(default_factory=dict)
    """The losses of that version."""
    assignment_action: int = 0
    """Index of the last entry that changed what devices are asked to do."""
    commands: dict[str, str] = field(default_factory=dict)
    """Tickets of commands that were carried out, and the answers."""

    @property
    def descending_now(self) -> tuple[DeviceId, ...]:
        """Devices of whose retracted answers a model that is recorded next descends."""
        return self.descent.devices(self.size) if self.lineage is not None else ()

    @property
    def current_stage(self) -> int | None:
        """Number of the newest stage."""
        return max(self.stages, default=None)

    @property
    def open_stage(self) -> int | None:
        """Number of the newest stage, while it is open."""
        number = self.current_stage
        return number if number and self.stages[number].closed_index is None else None

    @property
    def current_round(self) -> Round | None:
        """The newest round of the lineage."""
        return self.rounds[max(self.rounds)] if self.rounds else None

    @property
    def network(self) -> entries.NetworkImported | None:
        """The lineage, where whole networks are trained in rounds."""
        return self.lineage if isinstance(self.lineage, entries.NetworkImported) else None

    @property
    def unscored(self) -> Weights | None:
        """The fleet's weights, while the proxy has neither scored them nor been given up."""
        network, weights = self.network, self.weights
        if network is None or not network.proxy or weights is None or weights.averaged is None:
            return None
        return weights if weights.index > self.old_models.settled else None

    def rounds_averaged(self, stage: int) -> int:
        """Count the rounds of a stage that gave a model."""
        return sum(item.averaged for item in self.rounds.values() if item.opened.stage == stage)

    def first_of(self, later: Round) -> Round:
        """Return the first phase of the round of which `later` is a phase; often itself."""
        while later.opened.follows is not None:
            later = self.rounds[later.opened.follows]
        return later

    def action_for(self, device: DeviceId) -> int:
        """Return the index of the last entry that changed what `device` is asked to do."""
        return max(self.assignment_action, self.devices[device].order_action)

    @property
    def newest_model(self) -> Model | None:
        """The model with the highest version."""
        return self.models[max(self.models)] if self.models else None

    @property
    def needed_blobs(self) -> frozenset[Digest]:
        """What devices are offered and models are made of: a backbone, weights, models' files."""
        bodies: list[entries.EntryBody | None] = [self.lineage]
        for model in self.models.values():
            bodies += [model.lineage, model.solved, model.exported]
        needed = {digest for body in bodies if body is not None for digest in body.blobs}
        if self.weights is not None:
            needed |= self.weights.blobs
            needed |= {offer.digest for offer in self.old_models.offers.values()}
        return frozenset(needed)

    def desired_for(self, device: DeviceId) -> Desired | None:
        """Return the version that this device is to run."""
        return self.desired_by_device.get(device, self.desired)

    @property
    def all_desired(self) -> list[Desired]:
        """Return what any device is to run: that of all first, then as the entries stand."""
        own = {item.action: item for item in self.desired_by_device.values()}
        return [*filter(None, (self.desired,)), *(own[action] for action in sorted(own))]

    def devices_of(self, desired: Desired) -> tuple[DeviceId, ...] | None:
        """Return the devices that are to run it; None for all that nothing else is said of."""
        if desired.devices is None:
            return None
        said = self.desired_by_device.items()
        return tuple(device for device, item in said if item.action == desired.action)

    def given(self) -> dict[int, Counted]:
        """Return the contributions of the current lineage, also those that are left out."""
        if self.lineage is None:
            return {}
        lineage = self.lineage.digest
        return {i: item for i, item in self.counted.items() if item.lineage == lineage}

    def inputs(self) -> tuple[int, ...]:
        """Ledger indices of the contributions of the current lineage that are in the sum."""
        return tuple(sorted(i for i in self.given() if i not in self.left_out))

    def learned_names(self) -> tuple[ClassName, ...]:
        """Return the classes with images in the sum, in the order of their indices: a head's rows.

        A class that was named but has no images yet has no row: its scores would be zero, which
        can be the largest.
        """
        learned = {
            self.classes.resolve(name)
            for index in self.inputs()
            for name in self.counted[index].samples
        }
        return tuple(name for name in self.classes.names if name in learned)
