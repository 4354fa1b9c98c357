"""The small fleets that seeds are tried on: every form, few and many parts, attached and offered.

They see pictures that are made here, of 8 by 8 pixels, so that a run takes a fraction of a second.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fleetledger.coordinator.core.rules import AsynchronousRules, PrivacyRules
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.datasets.loading import DataSettings
from fleetledger.simulator.datasets.npz import save_npz
from fleetledger.simulator.plan.partitions import PartitionSettings
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.sections import (
    DeviceSettings,
    MethodSettings,
    RoundSettings,
    StageSettings,
)

SIDE = 8
CLASSES = 4
PER_CLASS = 18
_TEST_PER_CLASS = 2
_PART = "max_samples_per_part"

_QUICK_PROXY = {
    "detection": "stage",
    "memory_per_class": 2,
    "perturbation_steps": 1,
    "inversion_steps": 1,
    "inversion_kept": 1,
    "worst_distance": 1e9,
}
ASYNCHRONOUS = "asynchronous rounds"
_ROUNDS = {
    ASYNCHRONOUS: RoundSettings(
        per_stage=4, cohort=3, asynchronous=AsynchronousRules(buffer=2, max_staleness=2)
    )
}
"""By title; of the others two in each stage."""
VANISHING = "members vanish"
_MASKS = {"masks": True, "least": 3, "wait_seconds": 1e6, "answer_seconds": 1e6}
_MASKED = {
    "exact, behind masks": PrivacyRules(**_MASKS),
    "ridge regression, behind masks": PrivacyRules(**_MASKS),
    "rounds, behind masks": PrivacyRules(**_MASKS),
    VANISHING: PrivacyRules(
        masks=True, least=3, cohort=4, wait_seconds=20.0, answer_seconds=20.0, keep_masked=True
    ),
}
"""By title; the others are not summed behind masks."""
_FLEETS: tuple[tuple[str, str, int, dict[str, Any]], ...] = (
    ("exact, one part each", "stsa", 2, {"form": "exact", "map_width": 32}),
    ("exact, many parts", "stsa", 3, {"form": "exact", "map_width": 32, _PART: 5}),
    ("exact, offered in blocks", "stsa", 2, {"form": "exact", "map_width": 512, _PART: 30}),
    ("compact", "stsa", 3, {"form": "compact", "map_width": 48}),
    ("compact, many parts", "stsa", 4, {"form": "compact", "map_width": 32, _PART: 8}),
    ("estimated", "stsa", 3, {"form": "estimated", "map_width": 48, "groups": 3}),
    (
        "estimated, many parts",
        "stsa",
        2,
        {"form": "estimated", "map_width": 32, "groups": 2, _PART: 10},
    ),
    ("exact, a crowd", "stsa", 6, {"form": "exact", "map_width": 40, _PART: 12}),
    ("class means", "fedncm", 3, {_PART: 12}),
    ("ridge regression", "fed3r", 2, {_PART: 12}),
    ("estimated covariances", "fedcof", 3, {}),
    ("rounds", "rounds", 3, {"network": "mlp", "epochs": 1, "batch": 8, "rate": 0.1}),
    ("adapters", "fedhaf", 2, {"batch": 8, "hidden": 16, "width": 8, "head_epochs": 1}),
    ("a proxy", "lga", 2, {"network": "mlp", "epochs": 1, "batch": 8, "rate": 0.1, **_QUICK_PROXY}),
    (ASYNCHRONOUS, "rounds", 4, {"network": "mlp", "epochs": 1, "batch": 8, "rate": 0.1}),
    ("exact, behind masks", "stsa", 4, {"form": "exact", "map_width": 32}),
    ("ridge regression, behind masks", "fed3r", 3, {}),
    (
        "rounds, behind masks",
        "rounds",
        4,
        {"network": "mlp", "epochs": 1, "batch": 8, "rate": 0.1},
    ),
    (VANISHING, "stsa", 7, {"form": "exact", "map_width": 32}),
)
"""Title, method, devices, settings of the method."""


WITHOUT_KEYS = (1, 2, 7)
"""Fleets whose devices may be installed anew; the others enrol, and sign what they say."""


def variants(pictures: Path) -> tuple[Scenario, ...]:
    """Return the scenarios, which learn from the file that `write_pictures` wrote."""
    return tuple(
        Scenario(
            title=title,
            seeds=(number,),
            data=DataSettings(set="npz", root=str(pictures)),
            stages=StageSettings(count=2),
            devices=DeviceSettings(
                count=devices, partition=PartitionSettings(rule="dirichlet", beta=1.0)
            ),
            method=MethodSettings(name=method, settings=settings),
            rounds=_ROUNDS.get(title, RoundSettings(per_stage=2)),
            privacy=_MASKED.get(title),
        )
        for number, (title, method, devices, settings) in enumerate(_FLEETS)
    )


def write_pictures(path: Path, test_per_class: int = _TEST_PER_CLASS) -> None:
    """Write pictures of bright blocks in the dark, a block for every class, with noise."""
    random = np.random.default_rng(0)
    names = tuple(ClassName(name) for name in ("east", "north", "south", "west")[:CLASSES])
    parts = [_part(random, names, per_class) for per_class in (PER_CLASS, test_per_class)]
    save_npz(path, Split(train=parts[0], test=parts[1]))


def _part(
    random: np.random.Generator, names: tuple[ClassName, ...], per_class: int
) -> LabelledImages:
    labels = np.repeat(np.arange(len(names)), per_class)
    images = random.integers(0, 90, (len(labels), SIDE, SIDE))
    for image, label in zip(images, labels, strict=True):
        row, column = divmod(int(label), 2)
        image[4 * row : 4 * row + 4, 4 * column : 4 * column + 4] += 120
    return LabelledImages(images.astype(np.uint8), labels.astype(np.int64), names)
