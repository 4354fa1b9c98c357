"""The rule of a scenario by which samples are dealt to devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fleetledger.simulator.datasets.labels import Indices, Labels
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.errors import PartitionError, PlanError
from fleetledger.simulator.plan.partitions import (
    PARTITIONS,
    PartitionSettings,
    partition_by_owner,
)


@dataclass(frozen=True)
class Dealer:
    """Deals training samples by a scenario's rule."""

    settings: PartitionSettings
    labels: Labels
    """Of all training samples."""
    owners: Indices | None
    """(N,), under the rule `owner`: the devices are these owners, in ascending order."""

    @classmethod
    def of(cls, settings: PartitionSettings, train: SampleSet) -> Dealer:
        """Return a dealer; raise `PlanError` where the rule needs what the samples have not."""
        labels = train.labels
        rule = PARTITIONS[settings.rule]
        if labels.ndim == 2 and not rule.of_several:
            others = [name for name, each in PARTITIONS.items() if each.of_several]
            raise PlanError(
                f"devices.partition.rule: {settings.rule!r}; pictures with several classes are "
                f"dealt by {' or '.join(map(repr, others))}"
            )
        if rule.deal is not None:
            return cls(settings, labels, None)
        if train.owners is None:
            raise PlanError(
                "devices.partition.rule: owner, but the data set does not say who owns its "
                "images; give another rule"
            )
        return cls(settings, labels, train.owners)

    @property
    def most_devices(self) -> int | None:
        """How many devices there can be; None for any number."""
        return None if self.owners is None else len(np.unique(self.owners))

    def deal(
        self,
        pool: Indices,
        classes: Sequence[int],
        devices: Sequence[int],
        random: np.random.Generator,
    ) -> Mapping[int, Indices]:
        """Return the samples of a pool that each device gets, ascending.

        `pool` is ascending, and its samples have or show `classes`; `devices` are numbers from 1.
        Raises `PartitionError` where the rule cannot deal so.
        """
        if not devices:
            raise PartitionError(
                "no device gets its images; give a larger devices.groups.new_share, or let "
                "devices join"
            )
        rule = PARTITIONS[self.settings.rule].deal
        if rule is None:
            assert self.owners is not None
            owners = np.unique(self.owners)
            wanted = [int(owners[number - 1]) for number in devices]
            parts = partition_by_owner(self.owners[pool], wanted)
        else:
            labels = self.labels
            shown = labels[pool] if labels.ndim == 1 else labels[np.ix_(pool, np.array(classes))]
            parts = rule(shown, len(devices), self.settings, random)
        return {device: pool[part] for device, part in zip(devices, parts, strict=True)}
