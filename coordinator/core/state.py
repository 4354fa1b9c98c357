"""The coordinator's state: a fold of `transitions.apply` over the ledger, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.core import entries
from coordinator.core.records import Counted, Desired, Device, Losses, Model, Stage
from coordinator.core.registry import ClassRegistry
from schemas.values import ClassName, DeviceId


@dataclass
class State:
    """Everything that the rules decide on."""

    size: int = 0
    """Number of entries applied; the index of the next one."""
    devices: dict[DeviceId, Device] = field(default_factory=dict)
    classes: ClassRegistry = field(default_factory=ClassRegistry)
    lineage: entries.BackboneImported | None = None
    stages: dict[int, Stage] = field(default_factory=dict)
    counted: dict[int, Counted] = field(default_factory=dict)
    """Contributions in the sum, by ledger index."""
    models: dict[int, Model] = field(default_factory=dict)
    failed: entries.ModelFailed | None = None
    """The last failure to make a model, until one is made."""
    desired: Desired | None = None
    desired_history: list[int] = field(default_factory=list)
    """Versions that were desired for all devices, oldest first."""
    desired_by_device: dict[DeviceId, Desired] = field(default_factory=dict)
    held: bool = False
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

    @property
    def current_stage(self) -> int | None:
        """Number of the newest stage."""
        return max(self.stages, default=None)

    @property
    def newest_model(self) -> Model | None:
        """The model with the highest version."""
        return self.models[max(self.models)] if self.models else None

    def desired_for(self, device: DeviceId) -> Desired | None:
        """Return the version that this device is to run."""
        return self.desired_by_device.get(device, self.desired)

    def inputs(self) -> tuple[int, ...]:
        """Ledger indices of the contributions of the current lineage that are in the sum."""
        if self.lineage is None:
            return ()
        lineage = self.lineage.frozen.digest
        return tuple(sorted(i for i, item in self.counted.items() if item.lineage == lineage))

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
