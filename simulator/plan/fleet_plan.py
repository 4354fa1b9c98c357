"""The plan of one seed: for every stage its classes, and for every device what reaches it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fleetledger.schemas.values import ClassName, DeviceId
from fleetledger.simulator.datasets.samples import Domains

Group = Literal["old", "new", "joined"]
"""Z_o, Z_n and Z_a of LGA; S_o, S_c and S_n of FBL."""


@dataclass(frozen=True)
class DeviceStage:
    """What one device meets in one stage."""

    indices: NDArray[np.int64]
    """Training samples that arrive at the device as the stage begins, ascending; may be empty."""
    group: Group = "new"
    online: bool = True
    """False: the device is away for the whole stage, and its samples wait for its return."""
    delay_seconds: float = 0.0
    """Seconds of the fleet's clock by which its answer is late."""


@dataclass(frozen=True)
class StagePlan:
    """One stage: number, from 1, its classes as labels of the data set, and the present devices."""

    number: int
    classes: tuple[int, ...]
    """Those that come for the first time."""
    devices: Mapping[DeviceId, DeviceStage]
    notes: tuple[str, ...] = ()
    """What a reader of the report should know of the draw, such as images that reach nobody."""
    returning: tuple[int, ...] = ()
    """Classes of earlier stages of which samples come again."""

    @property
    def named(self) -> tuple[int, ...]:
        """Classes that the stage is opened for: those that are new, and those that return."""
        return self.classes + self.returning


@dataclass(frozen=True)
class Renamed:
    """Samples that devices are given under another label, after those of the data set."""

    samples: NDArray[np.int64]
    """Which of the data set each is, (R,)."""
    labels: NDArray[np.int64]
    """What it is given as, (R,)."""


@dataclass(frozen=True)
class FleetPlan:
    """All stages of one seed. Devices are named `device-1`, `device-2` and so on."""

    seed: int
    class_names: tuple[ClassName, ...]
    """Of the data set; labels index it."""
    stages: tuple[StagePlan, ...]
    renamed: Renamed | None = None
    """What sample indices mean that are beyond the data set's; None without such."""
    domain_stages: Mapping[tuple[int, str], int] = field(default_factory=dict)
    """The stage that first brings each class in each domain; empty without domains."""

    @property
    def repeats(self) -> bool:
        """Whether a class comes with several stages."""
        return any(stage.returning for stage in self.stages)

    @property
    def devices(self) -> tuple[DeviceId, ...]:
        """Every device that is ever there, in the order of joining."""
        return tuple(dict.fromkeys(name for stage in self.stages for name in stage.devices))

    @property
    def dealt(self) -> NDArray[np.int64]:
        """All training samples that ever reach a device, ascending, (N,)."""
        parts = [part.indices for stage in self.stages for part in stage.devices.values()]
        return np.unique(np.concatenate([np.empty(0, np.int64), *parts]))

    def seen(self, stage: int) -> tuple[int, ...]:
        """Return the classes of all stages up to number `stage`, in the order of coming."""
        return tuple(label for item in self.stages[:stage] for label in item.classes)

    def stages_of_classes(self) -> NDArray[np.int64]:
        """Return the number of the stage that brings each class, (C,); 0 for classes not used."""
        stage_of_class = np.zeros(len(self.class_names), np.int64)
        for stage in self.stages:
            stage_of_class[list(stage.classes)] = stage.number
        return stage_of_class

    def stages_of_samples(
        self, labels: NDArray[np.int64], domains: Domains | None
    ) -> NDArray[np.int64]:
        """Return the stage that first brings the like of each sample, (N,); 0 where none does.

        That is one of its class or, where samples have domains, of its class and domain.
        """
        if domains is None or not self.domain_stages:
            return self.stages_of_classes()[labels]
        place = {name: number for number, name in enumerate(domains.names)}
        first = np.zeros((len(self.class_names), len(place)), np.int64)
        for (label, name), stage in self.domain_stages.items():
            if name in place:
                first[label, place[name]] = stage
        found: NDArray[np.int64] = first[labels, domains.of_sample]
        return found

    def names(self, classes: tuple[int, ...]) -> tuple[ClassName, ...]:
        """Return the names of classes."""
        return tuple(self.class_names[label] for label in classes)
