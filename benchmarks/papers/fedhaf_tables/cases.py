"""What is compared, and the scenario that all cases share but for how they learn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleetledger.simulator.scenario.study import load_study

SCENARIO = "cifar100-fedhaf"
EPOCHS, BATCH, RATE = 10, 64, 0.02


@dataclass(frozen=True)
class Printed:
    """A row of the paper's tables for CIFAR-100: a frozen ResNet-152, the whole data set."""

    average: float
    forgetting: float | None


@dataclass(frozen=True)
class Case:
    """What the fleet learns with."""

    title: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    on_features: bool | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the scenario."""
    printed: Printed | None = None
    study: str = ""
    """The study that ships it; empty for a case of the table of methods."""

    def changes(self) -> list[str]:
        """Return what the case sets in its scenario."""
        told: dict[str, Any] = {"method.name": self.method, **self.fields}
        if self.on_features is not None:
            told["method.on_features"] = str(self.on_features).lower()
        told |= {f"method.settings.{name}": value for name, value in self.settings.items()}
        return [f"{name}={value}" for name, value in told.items()]


def fedhaf(title: str, preset: str, printed: Printed | None = None, **settings: Any) -> Case:  # noqa: ANN401
    """Return a case of the method itself."""
    return Case(title, "fedhaf", {"preset": preset, **settings}, printed=printed)


def rival(title: str, printed: Printed | None = None, **settings: Any) -> Case:  # noqa: ANN401
    """Return a case that trains FedHAF's network by another method's local training."""
    return Case(title, "rounds", {**SAME, **settings}, on_features=True, printed=printed)


SAME = {
    "network": "fam",
    "head": "hidden",
    "epochs": EPOCHS,
    "batch": BATCH,
    "rate": RATE,
    "weight_decay": 5e-4,
}
"""FedHAF's network, and the local training of its first stage."""


def _of_study(study: str, title: str, known: str) -> dict[str, Case]:
    """Return a study's cases but the one called `known`, which is `full`."""
    found = {}
    for case in load_study(study).case:
        printed = [Printed(row["average"], None) for row in case.get("published", ())]
        if case["name"] != known:
            found[f"{study}-{re.sub('[ %]', '', case['name'])}"] = Case(
                title.format(case["name"]),
                "fedhaf",
                {"preset": "fedhaf", **case["method"]["settings"]},
                printed=printed[0] if printed else None,
                study=study,
            )
    return found


CASES: Mapping[str, Case] = {
    "full": fedhaf("FedHAF", "fedhaf", Printed(49.39, 30.3)),
    "wo-ce": fedhaf("FedHAF without L_CE's slice", "without-ce", Printed(19.87, 58.8)),
    "wo-kd": fedhaf("FedHAF without L_KD", "without-kd", Printed(35.28, 43.38)),
    "wo-fd": fedhaf("FedHAF without L_FD", "without-fd", Printed(42.93, 36.41)),
    "wo-fb": fedhaf("FedHAF without L_FB", "without-fb", Printed(36.75, 41.91)),
    "wo-fam": fedhaf("FedHAF without FAM", "without-fam", Printed(32.02, 46.64)),
    "wo-stages": fedhaf("FedHAF without two stages", "without-stages", Printed(43.49, 35.17)),
    "int16": fedhaf("FedHAF, half the bytes", "fedhaf", upload="int16"),
    "replay-head": fedhaf(
        "FedHAF, exemplars in the head's cross-entropy too",
        "fedhaf",
        ce_scope="seen",
        ce_rows="all",
    ),
    "own-task": fedhaf(
        "FedHAF, exemplars in L_CE within their own task",
        "fedhaf",
        ce_scope="own-task",
        ce_rows="all",
    ),
    "replay": fedhaf("FedHAF, preset `replay`", "replay"),
    "replay-wo-fam": fedhaf("FedHAF, preset `replay`, without FAM", "replay", adapter="none"),
    "calibrated": fedhaf("FedHAF, preset `calibrated`", "calibrated"),
    "calibrated-wo-fam": fedhaf(
        "FedHAF, preset `calibrated`, without FAM", "calibrated", adapter="none"
    ),
    "fedavg-task": rival("FedAvg, the task's classes", preset="fedavg-task"),
    "fedavg": rival("FedAvg, seen classes", Printed(31.32, 65.68), preset="fedavg"),
    "fedavg-exemplars": fedhaf("FedAvg, seen classes and the same exemplars", "fedavg-replay"),
    "fedavg-calibrated": fedhaf(
        "FedAvg, seen classes, exemplars and class counts of `calibrated`",
        "fedavg-replay",
        ce_prior="device",
        exemplar_choice="random",
    ),
    "fedprox": rival("FedProx, seen classes", Printed(33.21, 64.93), preset="fedprox"),
    "fedncm": Case("FedNCM", "fedncm"),
    "fedcof": Case("FedCOF", "fedcof"),
    "stsa": Case("STSA, M = 5000", "stsa", {"map_width": 5000}),
    "joint": Case(
        "Joint, all images so far in one place",
        "joint",
        {**SAME, "epochs": 1},
        on_features=True,
        fields={"rounds.per_stage": 5},
        printed=Printed(78.67, None),
    ),
    **_of_study("fedhaf-herding", "FedHAF, {} of a class kept", known="20 %"),
    **_of_study("fedhaf-factors", "FedHAF, {}", known="as chosen"),
}
"""By name, in the order of the table. `joint` passes five times over all images in every stage."""

BETAS = (1.0, 0.1)


@dataclass(frozen=True)
class Material:
    """Files that the cases need."""

    core: Path
    """The core of CIFAR-100 as .npz: 200 training and 50 test images of each class."""
    backbone: Path
    """MobileNetV2 at 112 pixels as .onnx, its preprocessing beside it."""

    def changes(self) -> list[str]:
        """Return what leads a scenario to the files."""
        return [
            "data.set=npz",
            f"data.root={self.core.resolve()}",
            f'backbone={{network = "file", file = "{self.backbone.resolve()}"}}',
        ]
