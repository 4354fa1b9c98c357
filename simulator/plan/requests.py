"""What a plan is asked, and what it says: for every stage who gets which samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fleetledger.simulator.datasets.labels import Indices, Labels
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.errors import PartitionError
from fleetledger.simulator.plan.dealer import Dealer
from fleetledger.simulator.plan.groups import group_devices
from fleetledger.simulator.plan.roster import Roster
from fleetledger.simulator.plan.streams import random_stream

if TYPE_CHECKING:  # settings name the plans of the table, which are made of this
    from fleetledger.simulator.plan.fleet_plan import Group
    from fleetledger.simulator.scenario.sections import DeviceSettings, StageSettings


@dataclass(frozen=True)
class StageDeal:
    """One stage of a plan: who gets what."""

    classes: tuple[int, ...]
    """Labels that its samples have, or show, as far as the stage is about them."""
    shares: Mapping[int, Indices]
    """Training samples of each device, by its number from 1; ascending."""
    labels: Mapping[int, Indices] | None = None
    """The labels that each device is given with its samples; None where they are the true ones."""
    domains: Mapping[int, Sequence[str]] | None = None
    """Their domains likewise; None where they are those of the data set."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlanRequest:
    """A data set, settings and a seed, of which a plan is made."""

    train: SampleSet
    stages: StageSettings
    devices: DeviceSettings
    roster: Roster
    dealer: Dealer
    seed: int

    @property
    def labels(self) -> Labels:
        """Labels of all training samples."""
        return self.train.labels

    @property
    def random(self) -> np.random.Generator:
        """The stream of the plan itself, from its beginning."""
        return random_stream(self.seed, "plan")

    def groups(self, stage: int) -> Mapping[int, Group]:
        """Return the group of every device that is there in a stage, ascending by number."""
        random = random_stream(self.seed, "groups", stage)
        return group_devices(self.devices.groups, self.roster, stage, random)

    def deal(self, stage: int, pool: Indices, classes: Sequence[int]) -> Mapping[int, Indices]:
        """Deal samples of a stage, ascending, by the rule of the scenario to those who get some.

        Raises `PartitionError` where that cannot be.
        """
        seeds = self.devices.partition.seeds
        random = (
            np.random.default_rng(seeds[stage - 1])
            if seeds
            else random_stream(self.seed, "partition", stage)
        )
        receivers = [device for device, group in self.groups(stage).items() if group != "old"]
        try:
            return self.dealer.deal(pool, classes, receivers, random)
        except PartitionError as error:
            raise PartitionError(f"stage {stage}: {error}") from error
