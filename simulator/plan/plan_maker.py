"""A scenario, a data set and a seed make the plan of a fleet; nothing else decides it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fleetledger.schemas.values import ClassName, DeviceId
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.labels import (
    Indices,
    Labels,
    count_samples,
    samples_of,
    without_samples_of,
)
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.errors import PartitionError, PlanError
from fleetledger.simulator.plan.fleet_plan import DeviceStage, FleetPlan, Group, StagePlan
from fleetledger.simulator.plan.groups import excluded_devices, group_devices
from fleetledger.simulator.plan.partitions import (
    PARTITIONS,
    PartitionSettings,
    partition_by_owner,
)
from fleetledger.simulator.plan.presence import Presence, draw_presence
from fleetledger.simulator.plan.roster import Roster
from fleetledger.simulator.plan.stage_notes import (
    describe_excluded,
    describe_offline,
    describe_unreached,
)
from fleetledger.simulator.plan.stages import Stages, describe_unequal, divide_classes
from fleetledger.simulator.plan.streams import random_stream
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.sections import DeviceSettings


@dataclass(frozen=True)
class _Planner:
    """What all stages of one plan share."""

    devices: DeviceSettings
    roster: Roster
    dealer: Dealer
    stages: Stages
    disjoint: bool
    """Whether samples that show a class of a later stage wait for it."""
    class_names: Sequence[ClassName]
    seed: int

    def labels(self, number: int) -> Labels:
        """Return the labels of all training samples, as far as a stage may have these."""
        later = [label for classes in self.stages[number:] for label in classes]
        labels = self.dealer.labels
        return without_samples_of(labels, later) if self.disjoint and later else labels


def make_plan(scenario: Scenario, split: Split[SampleSet], seed: int) -> FleetPlan:
    """Return who gets which training sample when.

    Classes are put in order and divided into stages; in each stage the devices are grouped, the
    samples of its classes dealt to those that get some, and drop-outs and delays drawn. A sample
    that shows several classes comes with each stage that has one of them. The same scenario,
    training labels and seed give the same plan (`simulator.plan.streams` says how far); a stage's
    draw depends on no other stage. Raises `PlanError` where scenario and data set do not fit each
    other, and `PartitionError` where a stage cannot be dealt.
    """
    train, settings = split.train, scenario.devices
    dealer = Dealer.of(settings.partition, train)
    stages = divide_classes(scenario.stages, train.class_names, seed)
    roster = Roster.of(settings)
    if dealer.most_devices is not None:
        roster = roster.limited_to(dealer.most_devices, len(stages))
    disjoint = scenario.stages.scenes == "disjoint"
    planner = _Planner(settings, roster, dealer, stages, disjoint, train.class_names, seed)
    _check_samples(planner)
    unequal = describe_unequal(stages, scenario.stages.larger_first)
    plans = [
        _plan_stage(planner, number, classes, unequal if number == 1 else None)
        for number, classes in enumerate(stages, start=1)
    ]
    return FleetPlan(seed, train.class_names, tuple(plans))


def device_id(number: int) -> DeviceId:
    """Return the name of a device, by its number from 1."""
    return DeviceId(f"device-{number}")


def device_stages(
    groups: Mapping[int, Group],
    shares: Mapping[int, Indices],
    presence: Mapping[int, Presence],
    excluded: Collection[int],
) -> dict[DeviceId, DeviceStage]:
    """Return what a stage is to each of its devices; one that is excluded is never online."""
    nothing = np.empty(0, np.int64)
    return {
        device_id(device): DeviceStage(
            indices=shares.get(device, nothing),
            group=group,
            online=presence[device].online and device not in excluded,
            delay_seconds=0.0 if device in excluded else presence[device].delay_seconds,
        )
        for device, group in groups.items()
    }


def _plan_stage(
    planner: _Planner, number: int, classes: tuple[int, ...], note: str | None
) -> StagePlan:
    random = random_stream(planner.seed, "groups", number)
    groups = group_devices(planner.devices.groups, planner.roster, number, random)
    receivers = [device for device, group in groups.items() if group != "old"]
    labels = planner.labels(number)
    shares = _deal(planner, number, labels, receivers)
    presence = draw_presence(planner.devices, list(groups), planner.seed, number)
    excluded = excluded_devices(planner.devices.groups, planner.roster, groups)
    _check_first_stage(number, shares, presence, planner)
    devices = device_stages(groups, shares, presence, excluded)
    notes = (
        note,
        describe_unreached(classes, shares.values(), labels, planner.class_names),
        describe_offline(devices.values()),
        describe_excluded(len(excluded)),
    )
    return StagePlan(number, classes, devices, tuple(told for told in notes if told))


def _deal(
    planner: _Planner, number: int, labels: Labels, receivers: list[int]
) -> Mapping[int, Indices]:
    seeds = planner.devices.partition.seeds
    random = (
        np.random.default_rng(seeds[number - 1])
        if seeds
        else random_stream(planner.seed, "partition", number)
    )
    try:
        return planner.dealer.deal(labels, planner.stages[number - 1], receivers, random)
    except PartitionError as error:
        raise PartitionError(f"stage {number}: {error}") from error


def _check_samples(planner: _Planner) -> None:
    """Raise `PlanError` where a class of a stage is in no training sample of the stage."""
    for number, classes in enumerate(planner.stages, start=1):
        there = count_samples(planner.labels(number), len(planner.class_names))
        for label in classes:
            if not there[label]:
                alone = " without a class of a later stage" if planner.disjoint else ""
                raise PlanError(
                    f"stages: {planner.class_names[label]!s} of stage {number} has no training "
                    f"image{alone}; give it some, or name the classes of the stages with lists"
                )


def _check_first_stage(
    number: int,
    shares: Mapping[int, Indices],
    presence: Mapping[int, Presence],
    planner: _Planner,
) -> None:
    """Raise `PlanError` where no device could give anything to the first model."""
    if number == 1 and not any(presence[k].online and len(part) for k, part in shares.items()):
        raise PlanError(
            f"devices.dropout: with {planner.devices.dropout} and seed {planner.seed} every "
            "device with images is offline in stage 1, so there can be no first model; give a "
            "smaller dropout or another seed"
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
        labels: Labels,
        classes: Sequence[int],
        devices: Sequence[int],
        random: np.random.Generator,
    ) -> Mapping[int, Indices]:
        """Return the samples of some classes that each device gets, ascending.

        `labels` are those of all samples; `devices` are numbers from 1. Raises `PartitionError`
        where the rule cannot deal so.
        """
        if not devices:
            raise PartitionError(
                "no device gets its images; give a larger devices.groups.new_share, or let "
                "devices join"
            )
        pool = samples_of(labels, classes)
        rule = PARTITIONS[self.settings.rule].deal
        if rule is None:
            assert self.owners is not None
            owners = np.unique(self.owners)
            wanted = [int(owners[number - 1]) for number in devices]
            parts = partition_by_owner(self.owners[pool], wanted)
        else:
            shown = labels[pool] if labels.ndim == 1 else labels[np.ix_(pool, np.array(classes))]
            parts = rule(shown, len(devices), self.settings, random)
        return {device: pool[part] for device, part in zip(devices, parts, strict=True)}
