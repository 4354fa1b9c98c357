"""Rows of the table, and the footing that all share; a row differs in nothing but its method.

To add a row, add a `Row` to `ROWS`: its rate is searched for and its seeds are run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.papers.footing.changes import as_changes
from benchmarks.papers.footing.held_out import HELD_OUT, KEPT

SCENARIO = str(Path(__file__).with_name("footing.toml"))
SEEDS = (1, 2, 3)
TUNING_SEED, TUNING_TASKS, CLASSES_PER_TASK = 4, 3, 4
"""Rates are chosen with a seed of its own, on its first tasks, by training images held out."""
TASKS, DEVICES, ROUNDS, EPOCHS, BATCH, EXEMPLARS = 5, 10, 10, 2, 32, 20
NETWORK = "resnet8"
IMAGES = 100
"""New images of a class on a device that drew it."""
RIVAL = "fedavg-exemplars"
"""The row that all others are compared with, seed by seed."""

_WITH_MOMENTUM = (0.01, 0.02, 0.04, 0.08)
_PLAIN = (0.05, 0.1, 0.2, 0.4)
"""Of SGD without momentum."""
_SIGMOIDS = (0.5, 1.0, 2.0, 4.0)
"""Around the rate of LGA's program, whose loss is a mean over sigmoids."""


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    title: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the scenario."""
    rate: str = "method.settings.rate"
    """The field that the best of `rates` is chosen for."""
    rates: tuple[float, ...] = _WITH_MOMENTUM
    passes: str | None = None
    """The field that is doubled until a doubling gains less than `CONVERGED`; None: none is."""
    beside: str | None = RIVAL
    """The row that it is compared with; None: with none."""
    behind: str | None = None
    """The row of statistics whose network of the first task it sees through; None: its own."""
    apart: str = ""
    """Why its average is no figure of the same footing; empty if it is one."""
    ingredient: bool = False
    """A step towards `best`: tried on held-out images alone, at one rate."""

    def changes(self, core: Path, seed: int, rate: float, passes: int | None = None) -> list[str]:
        """Return what a run of the table sets in the scenario."""
        return as_changes(
            {"seeds": [seed], "data.root": core, **self._fields(rate, passes)},
        )

    def tuning_changes(self, held_out: Path, rate: float, passes: int | None = None) -> list[str]:
        """Return what a run sets that tries a rate, on training images held out."""
        return as_changes(
            {
                "seeds": [TUNING_SEED],
                "data.root": held_out,
                "data.per_class": KEPT,
                "data.test_per_class": HELD_OUT,
                "stages.classes": TUNING_TASKS * CLASSES_PER_TASK,
                "stages.count": TUNING_TASKS,
                **self._fields(rate, passes),
            }
        )

    def _fields(self, rate: float, passes: int | None) -> dict[str, Any]:
        settings = {f"method.settings.{name}": value for name, value in self.settings.items()}
        lasting = {} if self.passes is None else {self.passes: passes or FIRST_PASSES}
        measured = {"evaluation.every_rounds": passes} if self.passes and passes else {}
        return {
            "method.name": self.method,
            **self.fields,
            **settings,
            self.rate: rate,
            **lasting,
            **measured,
        }


FIRST_PASSES, CONVERGED, MOST_PASSES = 20, 0.5, 160
"""Joint training converged if twice the passes gain less than half a point on held-out images."""

_LOCAL = {"network": NETWORK, "epochs": EPOCHS, "batch": BATCH, "flip": True}
_ALIKE = {**_LOCAL, "averaging": "plain"}
"""What every method trains with; answers count alike."""


_SHORT_SEARCH = {
    "reserved": TASKS * CLASSES_PER_TASK,
    "inversion_start": "grey",
    "inversion_rate": 1.0,
    "inversion_steps": 10,
}
"""As many outputs of Gamma as there are classes, and a short search for pictures in both modes."""


def _lga(title: str, preset: str, mode: str, beside: str | None = RIVAL) -> Row:
    settings = {
        "mode": mode,
        "preset": preset,
        **_ALIKE,
        "memory_per_class": EXEMPLARS,
        "detection": "stage",
        **_SHORT_SEARCH,
    }
    rates = _SIGMOIDS if mode == "code" else _PLAIN
    return Row(f"{title}, mode `{mode}`", "lga", settings, rates=rates, beside=beside)


def _rounds(title: str, preset: str, **settings: Any) -> Row:  # noqa: ANN401 - settings
    return Row(title, "rounds", {"preset": preset, **_ALIKE, **settings})


_HALF_FIRST = {
    "stages.first": 10,
    "stages.count": 3,
    "devices.policy.publish_images": True,
    "method.base.epochs": 40,
    "method.base.batch": 64,
    "method.base.milestones": [24, 32],
    "method.base.flip": True,
}
_BASE = "half of the classes were learned in one place first"


def _dcid(title: str, preset: str, learner: str) -> Row:
    network = f"{NETWORK}_signed" if learner == "lucir" else NETWORK
    settings = {
        "preset": preset,
        "base": "central",
        **_ALIKE,
        "network": network,
        "anchors_per_class": EXEMPLARS,
        "shared_per_class": EXEMPLARS,
    }
    beside = None if preset.startswith("dcil") else f"dcil-{learner}"
    return Row(title, "dcid", settings, _HALF_FIRST, beside=beside, apart=_BASE)


def first_task(core: Path, seed: int, rate: float, per_class: int | None = None) -> list[str]:
    """Return what a run sets that trains the network of the first task and nothing else."""
    settings = {f"method.settings.{name}": value for name, value in _ALIKE.items()}
    return as_changes(
        {
            "seeds": [seed],
            "data.root": core,
            **({} if per_class is None else {"data.per_class": per_class}),
            "stages.classes": CLASSES_PER_TASK,
            "stages.count": 1,
            **settings,
            "method.settings.rate": rate,
        }
    )


def _fedhaf(title: str, preset: str, **settings: Any) -> Row:  # noqa: ANN401 - settings
    given = {
        "preset": preset,
        "head_epochs": EPOCHS,
        "batch": BATCH,
        "averaging": "plain",
        "exemplar_ratio": EXEMPLARS / IMAGES,
        **settings,
    }
    rate = "method.settings.head_rate"
    return Row(f"{title} on the first task's network", "fedhaf", given, rate=rate, behind="stsa")


def _statistics(title: str, method: str, **settings: Any) -> Row:  # noqa: ANN401 - settings
    first = {
        "method.first_stage.name": "rounds",
        "method.first_stage.rounds": ROUNDS,
        **{f"method.first_stage.settings.{name}": value for name, value in _ALIKE.items()},
    }
    return Row(title, method, settings, first, rate="method.first_stage.settings.rate")


def _step(title: str, rate: float = 0.04, preset: str = "fedavg-exemplars", **settings: Any) -> Row:  # noqa: ANN401 - settings
    given = {"exemplars_per_class": EXEMPLARS, "ce_prior": "device", **settings}
    return replace(_rounds(title, preset, **given), rates=(rate,), ingredient=True)


_MIXED = {"distillation": 1.0, "mixing": "classes"}
ROWS: Mapping[str, Row] = {
    "lga-code": _lga("LGA", "lga", "code"),
    "glfc-code": _lga("GLFC", "glfc", "code"),
    "without-sdl-code": _lga("LGA without L_SD (`without-sdl`)", "without-sdl", "code"),
    "lga-paper": _lga("LGA", "lga", "paper"),
    RIVAL: Row(
        "FedAvg with exemplars",
        "rounds",
        {
            "preset": "fedavg-exemplars",
            **_ALIKE,
            "exemplars_per_class": EXEMPLARS,
        },
        beside=None,
    ),
    "fedavg-task": _rounds("FedAvg, the task's classes (masking alone)", "fedavg-task"),
    "fedavg": _rounds("FedAvg", "fedavg"),
    "joint": Row(
        "joint training to convergence",
        "joint",
        {**_LOCAL, "epochs": 1, "schedule": "cosine"},
        passes="rounds.per_stage",
    ),
    "rounds-best": _rounds("rounds, preset `best`", "best", exemplars_per_class=EXEMPLARS),
    "icarl": _rounds("iCaRL in a fleet", "icarl", exemplars_per_class=EXEMPLARS),
    "glfc-paper": _lga("GLFC", "glfc", "paper"),
    "without-sdl-paper": _lga("LGA without L_SD (`without-sdl`)", "without-sdl", "paper"),
    "lga-fedavg-code": _lga("FedAvg with LGA's loss and exemplars", "fedavg-exemplars", "code"),
    "lga-fedavg-paper": _lga("FedAvg with LGA's loss and exemplars", "fedavg-exemplars", "paper"),
    "fedavg-counts": _rounds(
        "FedAvg with exemplars and class counts in its loss",
        "fedavg-exemplars",
        exemplars_per_class=EXEMPLARS,
        ce_prior="device",
    ),
    "fedavg-aligned": _rounds(
        "FedAvg with exemplars and an aligned head", "fedavg-aligned", exemplars_per_class=EXEMPLARS
    ),
    "fedavg-refit": _rounds(
        "FedAvg with exemplars and a refitted head", "fedavg-refit", exemplars_per_class=EXEMPLARS
    ),
    "wa": _rounds("WA in a fleet", "wa", exemplars_per_class=EXEMPLARS),
    "ss-il": _rounds("SS-IL in a fleet", "ss-il", exemplars_per_class=EXEMPLARS),
    "bic": _rounds("BiC in a fleet", "bic", exemplars_per_class=EXEMPLARS),
    "podnet": _rounds("PODNet (simple form) in a fleet", "podnet", exemplars_per_class=EXEMPLARS),
    "stsa": _statistics("STSA on the first task's network", "stsa"),
    "stsa-best": _statistics("STSA, `best`, on the first task's network", "stsa", preset="best"),
    "fed3r": _statistics("Fed3R on the first task's network", "fed3r"),
    "fedncm": _statistics("FedNCM on the first task's network", "fedncm"),
    "fedhaf": _fedhaf("FedHAF", "fedhaf"),
    "fedhaf-without-fam": _fedhaf("FedHAF without FAM", "without-fam"),
    "fedhaf-replay": _fedhaf("FedHAF, `replay`,", "replay"),
    "fedhaf-calibrated": _fedhaf("FedHAF, `calibrated`, without FAM", "calibrated", adapter="none"),
    "dcil-icarl": _dcid("iCaRL, FedAvg, on DCID's base", "dcil-icarl-fedavg", "icarl"),
    "dcid-icarl": _dcid("DCID with iCaRL", "dcid-icarl", "icarl"),
    "dcil-lucir": _dcid("LUCIR, FedAvg, on DCID's base", "dcil-lucir-fedavg", "lucir"),
    "dcid-lucir": _dcid("DCID with LUCIR", "dcid-lucir", "lucir"),
    "dcil-erdil": _dcid(
        "ERDIL (simple form), FedAvg, on DCID's base", "dcil-erdil-fedavg", "erdil"
    ),
    "dcid-erdil": _dcid("DCID with ERDIL (simple form)", "dcid-erdil", "erdil"),
    "dcil-tpcil": _dcid(
        "TPCIL (simple form), FedAvg, on DCID's base", "dcil-tpcil-fedavg", "tpcil"
    ),
    "dcid-tpcil": _dcid("DCID with TPCIL (simple form)", "dcid-tpcil", "tpcil"),
    "target": Row(
        "TARGET, without exemplars",
        "rounds",
        {"preset": "target", **_ALIKE, "generator.images": 256, "generator.batch": 64},
        rates=(0.0025, 0.005, 0.01, 0.02),
    ),
    "step-counts": _step("class counts in the loss"),
    "step-refit": _step("counts, and a refitted head", preset="fedavg-refit"),
    "step-mix": _step("counts, and WA's distillation without its alignment", **_MIXED),
    "step-cosine": _step("counts, and a rate that falls to zero over a task", schedule="cosine"),
    "step-flat": _step("counts, and directions of features kept (lambda_f = 1)", pod_flat=1.0),
    "step-both": _step("the last two together", 0.08, schedule="cosine", pod_flat=1.0),
}
"""By name, in the order in which they are measured; the table is sorted by what they reach."""
