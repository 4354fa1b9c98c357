"""Whole protocols on a GPU, cut to what a budget allows: what a paper's claim stands or falls by.

A study has arms that differ in one setting. Each runs in the simulator, in a folder of its own, and
stops after a round when its share of the budget is spent; the same command goes on with it. How
many local epochs there are is decided once, from the measured seconds of a step, and kept in the
file of results, so that a run which goes on trains the same.

The simulator takes more packages than the engine's rows: `pip install '.[simulator,train,cpu]'`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

from benchmarks.gpu.cases import CASES
from benchmarks.gpu.entries import Place
from benchmarks.gpu.machine import settle
from fleetledger.learning.training.settings import TrainingEngineSettings

OVERHEAD = 1.4
"""Seconds of a study over those of its steps: looks at images, the proxy, measuring, exporting."""
BATCH = 128
DATA_VARIABLE = "FLEETLEDGER_DATA"
_FROM_SEARCH = {"inversion_steps": 20, "inversion_rate": 1.0, "inversion_start": "grey"}
"""The proxy's search for pictures, which as released takes longer than the training."""


@dataclass(frozen=True)
class Arm:
    """One side of a study, and what its paper prints for it after each task; None: nothing."""

    name: str
    settings: Mapping[str, Any]
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the scenario."""
    printed: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Study:
    """A scenario, cut to its first tasks, and what differs between its arms."""

    name: str
    scenario: str
    """Its name, or its file."""
    arms: tuple[Arm, ...]
    tasks: int
    classes_per_task: int
    class_share: float
    """Of a task's classes, all of whose images a device holds."""
    rounds: int
    cohort: int
    epochs: tuple[int, ...]
    """Local epochs that are tried, those of the protocol first."""
    memory: int
    """Exemplars that a device keeps at most."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)

    def steps_of_an_epoch(self, images_of_class: int) -> int:
        """Return the steps of all arms together with one local epoch a round, at most."""
        images = self.class_share * self.classes_per_task * images_of_class + self.memory
        of_device = ceil(images / BATCH)
        return len(self.arms) * self.tasks * self.rounds * self.cohort * of_device

    def epochs_within(self, seconds: float, step: float, images_of_class: int) -> int:
        """Return the most local epochs that fit, one at least."""
        one = self.steps_of_an_epoch(images_of_class) * step * OVERHEAD
        return next((epochs for epochs in self.epochs if epochs * one <= seconds), self.epochs[-1])

    def changes(self, arm: Arm, data: Path, device: str, epochs: int) -> list[str]:
        """Return what an arm sets in the scenario."""
        settings = {**self.settings, **arm.settings, "epochs": epochs}
        fields = {
            "data.set": "npz",
            "data.root": data,
            "stages.count": self.tasks,
            "stages.classes": self.tasks * self.classes_per_task,
            "evaluation.every_rounds": self.rounds,
            "engine.device": device.partition(":")[0],
            "engine.bfloat16": True,
            "engine.channels_last": True,
            **self.fields,
            **arm.fields,
            **{f"method.settings.{name}": value for name, value in settings.items()},
        }
        return [f"{name}={_text(value)}" for name, value in fields.items()]


LGA_5 = Study(
    "cifar100-lga-5",
    "cifar100-lga-5",
    (
        Arm("LGA as released", {"preset": "lga"}, printed=(83.3, 77.3, 72.8)),
        Arm("without L_SD", {"preset": "without-sdl"}, printed=(None, None, 59.0)),
    ),
    tasks=3,
    classes_per_task=20,
    class_share=0.6,
    rounds=10,
    cohort=10,
    epochs=(20, 10, 5, 2, 1),
    memory=2000,
    settings=_FROM_SEARCH,
    fields={"seeds": [2021]},
)


def studies() -> tuple[Study, ...]:
    """Return the studies, the most telling first."""
    from benchmarks.gpu.footing import FOOTING

    return (LGA_5, FOOTING)


@dataclass(frozen=True)
class Row:
    """An arm of a study with so many local epochs: its name in the table, and its work."""

    study: Study
    arm: Arm
    epochs: int
    images_of_class: int

    @property
    def name(self) -> str:
        """Study, arm, tasks and epochs."""
        return (
            f"{self.study.name}, {self.arm.name}, first {self.study.tasks} tasks, "
            f"{self.epochs} of {self.study.epochs[0]} local epochs, bfloat16"
        )

    def work(self, small: bool) -> dict[str, Any]:
        """Return what is trained."""
        return {
            "scenario": self.study.scenario,
            "fields": {**self.study.fields, **self.arm.fields},
            "settings": {**self.study.settings, **self.arm.settings},
            "images_of_class": self.images_of_class,
            "epochs": self.epochs,
            "small": small,
        }

    def go_on(self, place: Place, data: Path | None, runs: Path, seconds: float) -> dict[str, Any]:
        """Run until the end or until `seconds` are spent; return what is known by then."""
        from benchmarks.gpu.study_runs import carried_on

        began = time.perf_counter()
        folder = runs / self.name.replace(" ", "-").replace(",", "")
        changes = self.study.changes(
            self.arm, data or Path("absent.npz"), place.device, self.epochs
        )
        found = carried_on(self.study.scenario, changes, folder, seconds, tiny=place.small)
        return {
            **found,
            "printed": [] if place.small else list(self.arm.printed),
            "study_seconds": round(time.perf_counter() - began, 1),
        }


def step_seconds(place: Place) -> float:
    """Return the seconds of one step of LGA's later tasks, in bfloat16, after one to warm up."""
    case = CASES[-1]
    made = case.round(small=place.small, device=place.device)
    settings = TrainingEngineSettings(
        "loop", place.device, autocast=True, channels_last=not place.small
    )
    seconds, steps = 0.0, 1
    for _ in range(2):
        began = time.perf_counter()
        (trained,) = made.train(settings)[0]
        settle(place.device)
        seconds, steps = time.perf_counter() - began, trained.steps
    return seconds / steps


def data_of(given: list[Path] | None, runs: Path) -> Path | None:
    """Return CIFAR-100 as one file of the simulator, made of packs where packs are given.

    None where nothing is given and the folder of FLEETLEDGER_DATA has none either.
    """
    if not given:
        found = Path(os.environ.get(DATA_VARIABLE, ".")) / "cifar100.npz"
        return found.absolute() if found.exists() else None
    from benchmarks.gpu.study_runs import of_packs

    return of_packs([path.absolute() for path in given], runs.absolute() / "cifar100.npz")


def _text(value: Any) -> str:  # noqa: ANN401 - any value of a scenario
    return str(value).lower() if isinstance(value, bool) else str(value)
