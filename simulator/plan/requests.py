"""What a plan is made of: a data set, settings and a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fleetledger.simulator.datasets.labels import Indices, Labels
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.errors import PartitionError
from fleetledger.simulator.plan.dealer import Dealer
from fleetledger.simulator.plan.fleet_plan import Group
from fleetledger.simulator.plan.groups import group_devices
from fleetledger.simulator.plan.roster import Roster
from fleetledger.simulator.plan.streams import random_stream
from fleetledger.simulator.scenario.sections import DeviceSettings, StageSettings


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
