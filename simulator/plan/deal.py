"""A stage's training samples for the devices that get some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.errors import PartitionError, PlanError
from fleetledger.simulator.plan.partitions import RULES_BY_CLASS, partition_by_owner
from fleetledger.simulator.scenario.sections import PartitionSettings

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Dealer:
    """Deals training samples by a scenario's rule."""

    settings: PartitionSettings
    labels: Indices
    """(N,), of all training samples."""
    owners: Indices | None
    """(N,), under the rule `owner`: the devices are these owners, in ascending order."""

    @classmethod
    def of(cls, settings: PartitionSettings, train: SampleSet) -> Dealer:
        """Return a dealer; raise `PlanError` where the rule needs owners and there are none."""
        if settings.rule != "owner":
            return cls(settings, train.labels, None)
        if train.owners is None:
            raise PlanError(
                "devices.partition.rule: owner, but the data set does not say who owns its "
                "images; give another rule"
            )
        return cls(settings, train.labels, train.owners)

    @property
    def most_devices(self) -> int | None:
        """How many devices there can be; None for any number."""
        return None if self.owners is None else len(np.unique(self.owners))

    def deal(
        self, classes: Sequence[int], devices: Sequence[int], random: np.random.Generator
    ) -> Mapping[int, Indices]:
        """Return the samples of some classes that each device gets, ascending.

        `devices` are numbers from 1. Raises `PartitionError` where the rule cannot deal so.
        """
        if not devices:
            raise PartitionError(
                "no device gets its images; give a larger devices.groups.new_share, or let "
                "devices join"
            )
        pool = np.flatnonzero(np.isin(self.labels, classes)).astype(np.int64)
        parts = self._parts(pool, devices, random)
        return {device: pool[part] for device, part in zip(devices, parts, strict=True)}

    def _parts(
        self, pool: Indices, devices: Sequence[int], random: np.random.Generator
    ) -> list[Indices]:
        if self.owners is not None:
            owners = np.unique(self.owners)
            return partition_by_owner(self.owners[pool], [int(owners[n - 1]) for n in devices])
        rule = RULES_BY_CLASS[self.settings.rule]
        return rule(self.labels[pool], len(devices), self.settings, random)
