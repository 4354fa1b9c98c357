"""The scenarios that are measured: one protocol, and what each case sets in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleetledger.simulator.scenario.loading import load_scenario
from fleetledger.simulator.scenario.model import Scenario

PROTOCOL = "cifar100-stsa"
"""It ships: M = 5000, ten stages of ten classes in the order of the seed, five devices."""
BEST = "cifar100-best"
"""It ships, too: the same protocol with inner layers, mirror images and STSA's preset `best`."""


@dataclass(frozen=True)
class Material:
    """Files that the measurements need; `docs/datasets.md` tells how to make them."""

    core: Path
    """CIFAR-100 with 200 training and 50 test images per class, .npz."""
    whole: Path
    """All of CIFAR-100, .npz."""
    backbone: Path
    """MobileNetV2 at 112 pixels, .onnx, its preprocessing beside it."""
    weights: Path
    """Its weights for any size, .safetensors."""


@dataclass(frozen=True)
class Case:
    """One run of the fleet."""

    about: str
    partition: Mapping[str, Any]
    settings: Mapping[str, Any]
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the scenario."""
    whole: bool = False
    """On all of CIFAR-100 instead of the core."""
    protocol: str = PROTOCOL

    def scenario(self, material: Material, seed: int) -> Scenario:
        """Return the scenario to run."""
        fields = {
            "seeds": [seed],
            "data.set": "npz",
            "data.root": material.whole if self.whole else material.core,
            **self._backbone(material),
            **{f"devices.partition.{name}": value for name, value in self.partition.items()},
            **{f"method.settings.{name}": value for name, value in self.settings.items()},
            **self.changes,
        }
        if self.protocol == BEST and self.whole:
            fields |= {"data.per_class": 500, "data.test_per_class": 100}
        return load_scenario(self.protocol, [f"{name}={value}" for name, value in fields.items()])

    def _backbone(self, material: Material) -> dict[str, Any]:
        if self.protocol == BEST:
            return {"backbone.weights": material.weights}
        return {"backbone": f'{{network = "file", file = "{material.backbone}"}}'}


SKEWED = {"rule": "dirichlet", "beta": 0.1}
MIDDLE = {"rule": "dirichlet", "beta": 0.5}
EVEN = {"rule": "iid"}
COMPACT = {"form": "compact", "compact_bits": 10}
EXACT = {"form": "exact"}
NARROW = {**EXACT, "map_width": 1250}
ESTIMATED = {"form": "estimated", "groups": 50}
AT_ONCE = {**EXACT, "max_samples_per_part": 20_000}
POOLED = {"evaluation.pooled_reference": "true"}
ALL_CLASSES = {"stages.count": 1}
ONE_STAGE = {"stages.classes": 10, "stages.count": 1, "data.test_per_class": 1}


def _best(about: str, partition: Mapping[str, Any] = SKEWED, side: int = 112, **more: Any) -> Case:  # noqa: ANN401 - fields of a case
    size = {"backbone.size": side}
    return Case(about, partition, {"preset": "best"}, size, protocol=BEST, **more)


CASES = {
    "time": Case("compact form, Dirichlet 0.1, nothing else measured", SKEWED, COMPACT),
    "compact": Case("compact form, Dirichlet 0.1, with pooled ridge", SKEWED, COMPACT, POOLED),
    "estimated": Case("estimated form, 50 groups, Dirichlet 0.1", SKEWED, ESTIMATED),
    "estimated, as published": Case(
        "estimated form, 50 groups, split and counted as the published program does",
        SKEWED,
        {**ESTIMATED, "split": "shuffled", "group_minimum": 1, "count_all_clients": "true"},
    ),
    "compact, Dirichlet 0.5": Case("compact form, Dirichlet 0.5", MIDDLE, COMPACT),
    "compact, IID": Case("compact form, IID", EVEN, COMPACT),
    "exact, Dirichlet 0.1": Case("exact form, Dirichlet 0.1", SKEWED, EXACT),
    "exact, Dirichlet 0.5": Case("exact form, Dirichlet 0.5", MIDDLE, EXACT),
    "exact, IID": Case("exact form, IID", EVEN, EXACT),
    "exact, one stage, Dirichlet 0.1": Case(
        "all classes in one stage, a part per device", SKEWED, AT_ONCE, ALL_CLASSES
    ),
    "exact, one stage, Dirichlet 0.5": Case(
        "all classes in one stage, a part per device", MIDDLE, AT_ONCE, ALL_CLASSES
    ),
    "exact, one stage, IID": Case(
        "all classes in one stage, a part per device", EVEN, AT_ONCE, ALL_CLASSES
    ),
    "exact, M = 1250, Dirichlet 0.1": Case("the same with a narrow map", SKEWED, NARROW),
    "exact, M = 1250, Dirichlet 0.5": Case("the same with a narrow map", MIDDLE, NARROW),
    "exact, M = 1250, IID": Case("the same with a narrow map", EVEN, NARROW),
    "wire, compact": Case("one stage of all images", EVEN, COMPACT, ONE_STAGE, whole=True),
    "wire, exact": Case("one stage of all images", EVEN, EXACT, ONE_STAGE, whole=True),
    "wire, estimated": Case("one stage of all images", EVEN, ESTIMATED, ONE_STAGE, whole=True),
    "best": _best("cifar100-best as it ships"),
    "best, Dirichlet 0.5": _best("the same, less skewed", MIDDLE),
    "best, IID": _best("the same, not skewed", EVEN),
    "best, 160 px": _best("at 160 pixels", side=160),
    "best, 224 px": _best("at 224 pixels", side=224),
    "best, whole": _best("all of CIFAR-100", whole=True),
    "best, whole, 160 px": _best("all of CIFAR-100 at 160 pixels", side=160, whole=True),
}
