"""Small data sets and scenarios to plan."""

import hashlib
import json
from typing import Any

import numpy as np

from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets import LabelledImages, Split
from fleetledger.simulator.datasets.segmentation.images import SegmentedImages
from fleetledger.simulator.plan.fleet_plan import FleetPlan
from fleetledger.simulator.plan.plan_maker import make_plan
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.sections import DeviceSettings, StageSettings


def names(classes: int) -> tuple[ClassName, ...]:
    return tuple(ClassName(f"kind {label:03d}") for label in range(classes))


def make_split(sizes: list[int], owners: int | None = None, shuffled: bool = True) -> Split:
    """Training images of the given number per class; owners take turns.

    Test images play no part in a plan.
    """
    labels = np.repeat(np.arange(len(sizes)), sizes).astype(np.int64)
    if shuffled:
        labels = np.random.default_rng(0).permutation(labels)
    images = np.zeros((len(labels), 1, 1), np.uint8)
    owned = None if owners is None else np.arange(len(labels), dtype=np.int64) % owners
    train = LabelledImages(images, labels, names(len(sizes)), owned)
    return Split(train=train, test=train.take(np.arange(0)))


def scenario(**sections: Any) -> Scenario:
    return Scenario.model_validate({"title": "test", **sections})


def plan(split: Split, seed: int = 1, **sections: Any) -> FleetPlan:
    if sections.get("devices", {}).get("partition", {}).get("rule") == "owner":
        sections.setdefault("data", {"set": "omniglot"})
    return make_plan(scenario(**sections), split, seed)


def plan_scenes(
    train: SegmentedImages, stages: StageSettings, devices: DeviceSettings, seed: int
) -> FleetPlan:
    asked = Scenario.model_construct(stages=stages, devices=devices)
    return make_plan(asked, Split(train, train), seed)


def same(one: FleetPlan, other: FleetPlan) -> bool:
    """Whether two plans say the same of every stage and device."""
    return len(one.stages) == len(other.stages) and all(
        same_stage(a, b) for a, b in zip(one.stages, other.stages, strict=True)
    )


def same_stage(a, b) -> bool:
    return (
        a.classes == b.classes
        and list(a.devices) == list(b.devices)
        and all(
            np.array_equal(x.indices, y.indices)
            and (x.group, x.online, x.delay_seconds) == (y.group, y.online, y.delay_seconds)
            for x, y in zip(a.devices.values(), b.devices.values(), strict=True)
        )
    )


def digest(made: FleetPlan) -> str:
    """Twelve digits that change with anything in a plan; delays count to a microsecond."""
    told = [
        [
            stage.classes,
            {
                name: [d.indices.tolist(), d.group, d.online, f"{d.delay_seconds:.6f}"]
                for name, d in stage.devices.items()
            },
        ]
        for stage in made.stages
    ]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:12]
