"""The footing of `benchmarks.papers.from_scratch` as its GPU row: ResNet-18, all of CIFAR-100.

Five tasks of twenty classes at 32 pixels instead of four at 16, all images instead of 200 of a
class; devices, shares, rounds, exemplars of a class and losses are those of the table. Rates are
the best that the table found for ResNet-8, or the second of a row's grid where it found none yet:
they are not searched for here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from benchmarks import RESULTS_FOLDER
from benchmarks.gpu.studies import BATCH, Arm, Study
from benchmarks.papers.footing.rates import best_of
from benchmarks.papers.from_scratch.cases import DEVICES, EXEMPLARS, ROUNDS, ROWS, SCENARIO, TASKS

NAMES = ("lga-code", "without-sdl-code", "fedavg-exemplars", "rounds-best")
"""LGA and what it stands or falls by, FedAvg with as many exemplars, and what leads in small."""
_CLASSES, _SHARE = 100, 0.6
_OF_ALL = {"seeds": [1], "backbone.size": 32, "data.per_class": 500, "data.test_per_class": 100}


def _arm(name: str, rates: Mapping[str, Any]) -> Arm:
    row = ROWS[name]
    tried = {float(rate): run.get("average") for rate, run in rates.get(name, {}).items()}
    rate = best_of(tried) or row.rates[1]
    of_all = {"network": "resnet18", "batch": BATCH}
    if "reserved" in row.settings:
        of_all |= {"reserved": _CLASSES}
    fields = {"method.name": row.method, **row.fields, row.rate: rate}
    return Arm(row.title, {**row.settings, **of_all}, fields)


def _rates() -> Mapping[str, Any]:
    path = RESULTS_FOLDER / "from_scratch.json"
    if not path.exists():
        return {}
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))["rates"]
    return found


FOOTING = Study(
    "from scratch, ResNet-18, CIFAR-100",
    SCENARIO,
    tuple(_arm(name, _rates()) for name in NAMES),
    tasks=TASKS,
    classes_per_task=_CLASSES // TASKS,
    class_share=_SHARE,
    rounds=ROUNDS,
    cohort=DEVICES,
    epochs=(10, 5, 2, 1),
    memory=EXEMPLARS * _CLASSES,
    fields=_OF_ALL,
)
