"""Any scenario cut to one tiny step, to try it out before it is sent to a machine that is dear.

What a run is about stays: method, preset, loss and kind of network, the rule by which images are
dealt, groups, policies, the engine. What only takes time is cut to what `CUT` and the functions
below say: a few devices, two stages of a few classes, a few images, one round, one epoch, small
batches and, where they are settings, small widths. What it needs and is not at hand is replaced by
what can be made here, and every such replacement is told. What comes of it is no result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from fleetledger.simulator.datasets.loading import DataSettings, stand_in_for
from fleetledger.simulator.plan.partitions import PARTITIONS
from fleetledger.simulator.plan.plans import PLANS
from fleetledger.simulator.scenario.backbone import BackboneSettings, Size
from fleetledger.simulator.scenario.loading import scenario_content
from fleetledger.simulator.scenario.method_check import check_method, settings_of
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.overrides import Content, merge
from fleetledger.simulator.scenario.sections import DeviceSettings, StageSettings
from fleetledger.simulator.scenario.trainer import JOINT, JOINT_TRAINS_AS

TITLE = "Tiny step: "
NO_RESULT = "cut to one tiny step to try it out: its figures are no result"
DEVICES, COHORT, STAGES = 3, 2, 2
CLASSES, FIRST_CLASSES = 6, 4
"""Of all stages, and of the first: four, so that a network which knows nothing is uncertain by more
than the 1.2 nats that papers ask of a new task."""
TRAIN, TEST = 6, 4
"""Images of each class."""
SCENES_TRAIN, SCENES_TEST = 24, 12
"""Made-up scenes; each shows up to four digits."""
SIDE, FROZEN_SIDE = 84, 64
"""Most pixels along a side as networks see them; the second, a multiple of 32, is what a frozen
network of random weights takes that else has a size of its own."""

CUT: Mapping[str, int] = {
    "epochs": 1,
    "base_epochs": 1,
    "head_epochs": 1,
    "adapter_epochs": 1,
    "distil_epochs": 1,
    "batch": 8,
    "distil_batch": 8,
    "smallest_batch": 2,
    "batch_parts": 2,
    "crop": SIDE,
    "memory": 12,
    "exemplars": 12,
    "anchors_per_class": 2,
    "shared_per_class": 2,
    "synthetic_images": 8,
    "triples": 16,
    "perturbation_steps": 2,
    "inversion_steps": 2,
    "inversion_inner": 4,
    "inversion_kept": 2,
    "draws": 2,
    "ignored_rounds": 0,
    "hidden": 32,
    "width": 16,
    "map_width": 64,
    "groups": 2,
}
"""Settings of methods and the most that is left of each; smaller values stay as they are."""
_MADE_BY_NONE = ("inversion_steps",)
"""Those whose None is a large number, not the value of another setting."""


@dataclass(frozen=True)
class Absent:
    """What a scenario needs and is not at hand on this machine."""

    data: bool = False
    """The data set."""
    weights: bool = False
    """Weights of the frozen network, by file or by torchvision's name."""
    file: bool = False
    """The frozen network's own file."""
    trunk: bool = False
    """First weights of a segmenting network's trunk."""


@dataclass(frozen=True)
class TinyStep:
    """A scenario cut to a tiny step, and what was replaced in it, a sentence each."""

    scenario: Scenario
    replaced: tuple[str, ...]

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a person must know of it."""
        return (NO_RESULT, *self.replaced)


def tiny_step(scenario: Scenario, absent: Absent, classes: int | None = None) -> TinyStep:
    """Return a scenario cut to a tiny step; `absent` is what must be replaced.

    `classes` are those of the data set, where somebody has counted them: it may have few. A pure
    function. Cutting a tiny scenario again changes nothing but its title. Raises `ScenarioError`
    where what is left does not fit together.
    """
    changes: Content = {
        "title": TITLE + scenario.title,
        "seeds": scenario.seeds[:1],
        "published": (),
        "stages": _stages(scenario.stages, classes, of_data=not absent.data),
        "devices": _devices(scenario.devices),
        "rounds": _rounds(scenario),
        "method": _method(scenario) | ({"trunk": None} if absent.trunk else {}),
        "backbone": _backbone(scenario.backbone, absent),
        "evaluation": {"every_rounds": 1},
    }
    changes = merge(changes, {"data": _data(scenario.data, scenario.devices, absent)})
    if scenario.rollout is not None:
        changes["rollout"] = {
            "held_out": min(scenario.rollout.held_out, TEST),
            "candidate": {"of_class": None},  # that class may not be among the few
        }
    replaced = tuple(_replaced(scenario, absent))
    told = " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in (NO_RESULT, *replaced))
    changes["description"] = f"{told}\n{scenario.description}".strip()
    cut = Scenario.model_validate(merge(scenario_content(scenario), changes))
    check_method("--tiny", cut)
    return TinyStep(cut, replaced)


def _replaced(scenario: Scenario, absent: Absent) -> Iterable[str]:
    name, backbone = scenario.data.set, scenario.backbone
    if absent.data:
        made = stand_in_for(scenario.data.known.kind)
        yield f"the data set {name!r} is not at hand and made-up {made!r} stand in for it"
    if _plan(scenario.stages, of_data=not absent.data):
        yield f"the plan {scenario.stages.plan!r} cannot be cut and 'classes' stands in for it"
    if absent.file:
        yield (
            f"the frozen network {backbone.file} is not at hand and a MobileNetV2 with random "
            "weights stands in for it"
        )
    if absent.weights:
        network = backbone.name or backbone.network
        yield f"weights {backbone.weights} are not at hand, so those of {network} are random"
    if absent.trunk:
        yield f"{scenario.method.trunk} is not at hand, so first weights of the trunk are random"


def _data(data: DataSettings, devices: DeviceSettings, absent: Absent) -> Content:
    cut: Content = {
        "per_class": min(data.per_class or TRAIN, TRAIN),
        "test_per_class": min(data.test_per_class or TEST, TEST),
        "text": {
            "classes": None if data.text.classes is None else min(data.text.classes, CLASSES),
            "length": min(data.text.length, 32),
            "speakers": min(data.text.speakers, DEVICES),
            "windows": min(data.text.windows, 60),
            "test_windows": min(data.text.test_windows, 30),
        },
        "scenes": {
            "train": min(data.scenes.train, SCENES_TRAIN),
            "test": min(data.scenes.test, SCENES_TEST),
        },
    }
    if not absent.data:
        return cut
    stand_in = stand_in_for(data.known.kind)
    made: Content = {"set": stand_in, "root": None}
    if stand_in == "patterns":
        made["patterns"] = _patterns(data, by_owner=PARTITIONS[devices.partition.rule].deal is None)
    if stand_in == "digit-scenes":
        height, width, _ = data.known.shape
        made["scenes"] = {"height": height, "width": width, "scales": (height // 24,)}
    return merge(cut, made)


def _patterns(data: DataSettings, *, by_owner: bool) -> Content:
    height, width, channels = data.known.shape
    return {
        "classes": CLASSES,
        "train": TRAIN,
        "test": TEST,
        "height": height,
        "width": width,
        "channels": channels,
        "owners": DEVICES if by_owner else 0,
    }


def _stages(stages: StageSettings, there: int | None, *, of_data: bool) -> Content:
    """Return few classes in two stages; of a data set that is made up, in any order."""
    number = min(stages.total, STAGES)
    if stages.lists and of_data:
        return {"lists": tuple(names[:FIRST_CLASSES] for names in stages.lists[:number])}
    plan = _plan(stages, of_data=of_data)
    most = CLASSES if number > 1 else FIRST_CLASSES
    classes = min(stages.classes or there or most, most)
    cut: Content = {
        "classes": classes,
        "count": number,
        "first": max(1, classes - max(1, classes // 3)) if number > 1 else None,
        "setting": None,
        "lists": (),
    }
    return cut | plan | ({"order": "as-is"} if stages.order == "icarl" and not of_data else {})


def _plan(stages: StageSettings, *, of_data: bool) -> Content:
    """Return the plan `classes` in place of rows, and of domains that made-up data do not have."""
    if PLANS[stages.plan].deals and (of_data or stages.plan != "domains"):
        return {}
    return {"plan": "classes", "options": {}, "file": None}


def _devices(devices: DeviceSettings) -> Content:
    joining = min(devices.groups.joining, 1)
    there = [
        absence
        for absence in devices.absences
        if absence.device <= DEVICES and max(absence.joins, absence.leaves or 1) <= STAGES
    ]
    return {
        "count": min(devices.count, DEVICES),
        "groups": {"joining": joining},
        "partition": {"seeds": devices.partition.seeds[:STAGES], "image_share": 1.0},
        "absences": [absence.model_dump() for absence in there],
        "dropout": 0.0,
    }


def _rounds(scenario: Scenario) -> Content:
    rounds, count = scenario.rounds, min(scenario.devices.count, DEVICES)
    return {
        "per_stage": 1,
        "per_first_stage": None,
        "cohort": None if rounds.cohort is None else min(rounds.cohort, COHORT),
        "participation": max(rounds.participation, 1 / count),
    }


def _method(scenario: Scenario) -> Content:
    method = scenario.method
    name = JOINT_TRAINS_AS if method.name == JOINT else method.name
    cut: Content = {
        "settings": _cut(settings_of(name, method.settings, on_features=bool(method.on_features))),
        "base": _cut(method.base),
    }
    if method.first_stage is not None:
        first = method.first_stage
        settings = _cut(settings_of(first.name, first.settings))
        cut["first_stage"] = {"rounds": 1, "settings": settings}
    return cut


def _cut(settings: BaseModel) -> dict[str, Any]:
    """Return the settings that are larger than what is left of them, with that."""
    cut: dict[str, Any] = {}
    for name, most in CUT.items():
        value = getattr(settings, name, 0)
        unlimited = value is None and name in _MADE_BY_NONE
        if unlimited or (isinstance(value, int) and value > most):
            cut[name] = most
    return cut


def _backbone(backbone: BackboneSettings, absent: Absent) -> Content:
    cut: Content = {
        "size": _smaller(backbone.size),
        "characters": {
            "width": min(backbone.characters.width, 32),
            "epochs": 1,
        },
    }
    if absent.file:
        cut |= {"network": "mobilenet-v2", "file": None, "weights": None}
    if absent.weights:
        cut["weights"] = None
    if absent.file or absent.weights or backbone.network == "torchvision":
        side = FROZEN_SIDE if backbone.shape is None else backbone.shape[0]
        cut["size"] = min(side, FROZEN_SIDE)
    return cut


def _smaller(size: Size | None) -> Size | None:
    """Return a size of at most `SIDE` along its longer side, of the same proportions."""
    if size is None or isinstance(size, int):
        return size and min(size, SIDE)
    longer = max(size)
    if longer <= SIDE:
        return size
    return (max(8, size[0] * SIDE // longer), max(8, size[1] * SIDE // longer))
