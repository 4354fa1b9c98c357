"""What is measured: data sets with their scenarios, and the methods that are compared on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.papers.footing.changes import as_changes
from fleetledger.methods.fbl.settings import PRESETS, LossSettings, ShareSettings
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.loading import load_scenario

AS_PRINTED = "as-printed"
"""FBL without what a scenario changes in its loss."""
PUBLISHED = {
    "fbl": "FBL",
    "finetuning": "Finetuning + FL",
    "lwf": "LwF + FL",
    "ilt": "ILT + FL",
    "mib": "MiB + FL",
    "plop": "PLOP + FL",
    "rcil": "RCIL + FL",
}
"""Labels of what is published beside a scenario; the preset `rcil` is a simple form of RCIL."""
NOTICING = "noticing"
"""FBL whose devices notice tasks by entropy, where all others are told of them."""
FAMILY = ("fbl", NOTICING, "without-apl", "without-fsc", "without-frc")
METHODS: Mapping[str, str] = {
    "fbl": "FBL",
    NOTICING: "FBL, tasks noticed by entropy",
    AS_PRINTED: "FBL, loss as printed",
    "without-apl": "without adaptive pseudo labels",
    "without-fsc": "without gradient compensation",
    "without-frc": "without relation consistency",
    "finetuning": "finetuning",
    "lwf": "LwF",
    "ilt": "ILT",
    "mib": "MiB",
    "plop": "PLOP",
}
"""Titles, in the order of the tables."""
_WITHOUT_ILT = tuple(name for name in METHODS if name != "ilt")
_ON_PAPER = tuple(name for name in METHODS if name != NOTICING)
_EQUATIONS = {AS_PRINTED: {"mode": "paper"}}
"""On the paper's protocols FBL and its ablations are the released program."""
_ADE_EQUATIONS = {"share_step": 0.05, "pod_maps": 0.001, "pod_logits": 0.00001}
_TOLD = {"method.settings.detection": "stage"}
"""Devices are told of tasks, so that rows differ by what is learned alone."""
_PRESETS = {AS_PRINTED: "fbl", NOTICING: "fbl"}
_CHANGED = {
    name: found.default
    for settings in (LossSettings, ShareSettings)
    for name, found in settings.model_fields.items()
}
"""What a scenario may change in FBL's loss, and what the paper has."""
_ALIKE = {"plop": ("pod", "pod_maps", "pod_logits")}
"""Settings of the loss that a rival keeps as the scenario has them."""


@dataclass(frozen=True)
class Case:
    """A data set in tasks."""

    title: str
    scenario: str
    methods: tuple[str, ...]
    pack: bool = False
    """Whether the data may come as an .npz file."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What is set in the scenario, for all methods."""
    ablations: Mapping[str, float] = field(default_factory=dict)
    """mIoU after the last task as the paper's ablation prints it, percent."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of single methods."""

    def changes(self, method: str, data: Path | None, trunk: Path | None = None) -> list[str]:
        """Return what is set in the scenario for a method. Raises `ScenarioError` without data."""
        told = dict(self.fields) | self._files(data, trunk)
        told |= {
            f"method.settings.{name}": value for name, value in self.settings_of(method).items()
        }
        return as_changes(told)

    def settings_of(self, method: str) -> Mapping[str, Any]:
        """Return what a method sets: its preset, and what its loss does not share with FBL's."""
        preset = _PRESETS.get(method, method)
        kept = _CHANGED if method in FAMILY else _ALIKE.get(method, ())
        defaults = {
            name: PRESETS[preset].get(name, default)
            for name, default in _CHANGED.items()
            if name in self._own() and name not in kept
        }
        noticing = {"detection": "history"} if method == NOTICING else {}
        return {"preset": preset, **defaults, **noticing, **self.settings.get(method, {})}

    def _own(self) -> Mapping[str, Any]:
        """Return the method's settings before a method sets its own."""
        prefix = "method.settings."
        set_here = {
            name.removeprefix(prefix): value
            for name, value in self.fields.items()
            if name.startswith(prefix)
        }
        return load_scenario(self.scenario).method.settings | set_here

    def _files(self, data: Path | None, trunk: Path | None) -> dict[str, Any]:
        files: dict[str, Any] = {}
        if data is None and load_scenario(self.scenario).data.set != "digit-scenes":
            raise ScenarioError(f"--data: missing; {self.scenario} wants the folder of its data")
        if data is not None:
            files["data.root"] = data
        if data is not None and self.pack and data.suffix == ".npz":
            files["data.set"] = "segmentation-npz"
        if trunk is not None:
            files["method.trunk"] = trunk
        return files


_SMALL_CAMVID = {
    "backbone.size": [90, 120],
    "devices.partition.class_share": 1.0,
    "devices.partition.image_share": 0.15,
    "rounds.cohort": 2,
    "rounds.per_stage": 4,
    "evaluation.every_rounds": 4,
    "method.settings.epochs": 3,
    "method.settings.batch": 4,
    "method.settings.first_rate": 0.05,
    "method.settings.rate": 0.02,
    **_TOLD,
    "method.settings.observers": "cohort",
    "method.settings.unsure": "ignore",
    "method.settings.share_start": 0.8,
}
"""What a processor gets through in minutes."""
CASES: Mapping[str, Case] = {
    "digits": Case("Scenes of digits, 4-2", "digits-fbl", _WITHOUT_ILT, fields=_TOLD),
    "camvid": Case(
        "CamVid in small, 5-3",
        "camvid-fbl",
        _WITHOUT_ILT,
        pack=True,
        fields=_SMALL_CAMVID,
    ),
    "voc-15-1": Case("Pascal VOC 2012, 15-1", "voc-fbl-15-1", _ON_PAPER, settings=_EQUATIONS),
    "voc-4-4": Case(
        "Pascal VOC 2012, 4-4",
        "voc-fbl-4-4",
        _ON_PAPER,
        ablations={"without-apl": 40.0, "without-fsc": 40.0, "without-frc": 32.3},
        settings=_EQUATIONS,
    ),
    "voc-8-2": Case(
        "Pascal VOC 2012, 8-2",
        "voc-fbl-8-2",
        _ON_PAPER,
        ablations={"without-apl": 26.7, "without-fsc": 29.2, "without-frc": 28.7},
        settings=_EQUATIONS,
    ),
    "ade-100-10": Case(
        "ADE20k, 100-10",
        "ade20k-fbl-100-10",
        tuple(name for name in _ON_PAPER if name != "ilt"),
        settings={
            **_EQUATIONS,
            AS_PRINTED: {"mode": "paper", **_ADE_EQUATIONS},
            "mib": {"distillation": 100.0},
        },
    ),
}
