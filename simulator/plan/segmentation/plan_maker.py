"""Classes of pictures, settings and a seed make the plan of a fleet that learns segmentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleetledger.schemas.count_words import count_of
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.segmentation.samples import SegmentedSamples
from fleetledger.simulator.errors import PartitionError, PlanError
from fleetledger.simulator.plan.fleet_plan import FleetPlan, StagePlan
from fleetledger.simulator.plan.groups import excluded_devices, group_devices
from fleetledger.simulator.plan.plan_maker import device_stages
from fleetledger.simulator.plan.presence import draw_presence
from fleetledger.simulator.plan.roster import Roster
from fleetledger.simulator.plan.segmentation.overlapped import (
    Indices,
    Presence,
    count_unreached,
    pictures_with,
    without_later,
)
from fleetledger.simulator.plan.shares import part_of
from fleetledger.simulator.plan.stage_notes import describe_excluded, describe_offline
from fleetledger.simulator.plan.stages import Stages, divide_classes
from fleetledger.simulator.plan.streams import random_stream
from fleetledger.simulator.scenario.sections import DeviceSettings, PartitionSettings, StageSettings


@dataclass(frozen=True)
class _Planner:
    """What all stages of one plan share."""

    settings: DeviceSettings
    roster: Roster
    presences: Sequence[Presence]
    """Of the pictures that each stage may have, the first stage's first."""
    class_names: Sequence[ClassName]
    seed: int


def make_segmentation_plan(
    train: SegmentedSamples, stages: StageSettings, devices: DeviceSettings, seed: int
) -> FleetPlan:
    """Return who gets which training picture when; a stage is a task.

    The plan is that of `simulator.plan.plan_maker.make_plan`, but that a picture arrives with every
    task of which it has a class. The same classes in the pictures, settings and seed give the same
    plan, and a stage's draw depends on no other stage. Raises `PlanError` where settings and data
    set do not fit each other, and `PartitionError` where a stage cannot be dealt.
    """
    if devices.partition.rule != "class-share":
        raise PlanError(
            f"devices.partition.rule: {devices.partition.rule!r}; pictures with several classes "
            "are dealt by 'class-share'"
        )
    divided = divide_classes(stages, train.class_names, seed)
    presences = _presences(stages, divided, train)
    _check_pictures(stages, divided, presences, train.class_names)
    planner = _Planner(devices, Roster.of(devices), presences, train.class_names, seed)
    plans = [_plan_stage(planner, number, labels) for number, labels in enumerate(divided, start=1)]
    _check_first_stage(plans[0], planner)
    return FleetPlan(seed, train.class_names, tuple(plans))


def _plan_stage(planner: _Planner, number: int, labels: tuple[int, ...]) -> StagePlan:
    random = random_stream(planner.seed, "groups", number)
    groups = group_devices(planner.settings.groups, planner.roster, number, random)
    shares = _deal(planner, number, labels, [n for n, group in groups.items() if group != "old"])
    presence = draw_presence(planner.settings, list(groups), planner.seed, number)
    excluded = excluded_devices(planner.settings.groups, planner.roster, groups)
    devices = device_stages(groups, shares, presence, excluded)
    notes = (
        _describe_unreached(planner, number, labels, shares),
        describe_offline(devices.values()),
        describe_excluded(len(excluded)),
    )
    return StagePlan(number, labels, devices, tuple(told for told in notes if told))


def _deal(
    planner: _Planner, number: int, labels: tuple[int, ...], receivers: list[int]
) -> Mapping[int, Indices]:
    if not receivers:
        raise PartitionError(
            f"stage {number}: no device gets its pictures; give a larger "
            "devices.groups.new_share, or let devices join"
        )
    random = random_stream(planner.seed, "partition", number)
    settings = planner.settings.partition
    presence = planner.presences[number - 1]
    parts = deal_pictures(presence, labels, len(receivers), settings, random)
    return dict(zip(receivers, parts, strict=True))


def _describe_unreached(
    planner: _Planner, number: int, labels: tuple[int, ...], shares: Mapping[int, Indices]
) -> str | None:
    """Say how many pictures of a stage reach no device; None where every one has a device."""
    presence = planner.presences[number - 1]
    lost, nowhere = count_unreached(presence, labels, shares.values())
    if not lost:
        return None
    names = ", ".join(planner.class_names[label] for label in nowhere)
    nobody = f"; nobody has {names}" if nowhere else ""
    whole = len(pictures_with(presence, labels))
    return f"{lost} of {count_of(whole, 'picture')} of the stage reach no device{nobody}"


def _presences(
    settings: StageSettings, divided: Stages, train: SegmentedSamples
) -> Sequence[Presence]:
    """Return, for every stage, which classes are in which of the pictures that it may have."""
    if settings.scenes == "overlapped":
        return [train.presence] * len(divided)
    later = [
        [label for labels in divided[n:] for label in labels] for n in range(1, len(divided) + 1)
    ]
    return [without_later(train.presence, labels) for labels in later]


def _check_pictures(
    settings: StageSettings,
    divided: Stages,
    presences: Sequence[Presence],
    class_names: Sequence[ClassName],
) -> None:
    """Raise `PlanError` where a class of a stage is in none of the stage's training pictures."""
    alone = " without a class of a later stage" if settings.scenes == "disjoint" else ""
    for number, (labels, presence) in enumerate(zip(divided, presences, strict=True), start=1):
        for label in labels:
            if not presence[:, label].any():
                raise PlanError(
                    f"stages: {class_names[label]!s} of stage {number} is in no training "
                    f"picture{alone}; add some, or name the classes of the stages with lists"
                )


def _check_first_stage(first: StagePlan, planner: _Planner) -> None:
    """Raise `PlanError` where no device could give anything to the first model."""
    if not any(device.online for device in first.devices.values()):
        raise PlanError(
            f"devices.dropout: with {planner.settings.dropout} and seed {planner.seed} every "
            "device is offline in stage 1, so there can be no first model; give a smaller dropout "
            "or another seed"
        )


def deal_pictures(
    presence: Presence,
    labels: Sequence[int],
    devices: int,
    settings: PartitionSettings,
    random: np.random.Generator,
) -> list[Indices]:
    """Return the pictures of every device, ascending.

    A device draws `class_share` of the classes in `labels` and `image_share` of the pictures with
    them; both are rounded down, but never below one. Every class must have a picture.
    """
    return [_draw(presence, np.array(labels), settings, random) for _ in range(devices)]


def _draw(
    presence: Presence,
    labels: NDArray[np.int64],
    settings: PartitionSettings,
    random: np.random.Generator,
) -> Indices:
    drawn = random.permutation(labels)[: max(1, part_of(settings.class_share, len(labels)))]
    pictures = pictures_with(presence, drawn.tolist())
    number = max(1, part_of(settings.image_share, len(pictures)))
    return np.sort(random.permutation(pictures)[:number])
