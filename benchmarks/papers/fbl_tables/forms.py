"""Forms of FBL's loss on several footings: what is set for each, and the runs of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.papers.footing.changes import as_changes
from fleetledger.methods.fbl.settings import ShareSettings
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.loading import load_scenario

_RHO = {name: found.default for name, found in ShareSettings.model_fields.items()}
_EVERY_GUESS: Mapping[str, Any] = {"unsure": "ignore", "share_start": 1.0, "share_most": 1.0}
"""Each guess of the old model at an old class counts: rounds here are too short for rho."""


@dataclass(frozen=True)
class Form:
    """Settings of the method by which a row differs from the others."""

    title: str
    settings: Mapping[str, Any]


FORMS: Mapping[str, Form] = {
    "printed": Form("equations as printed", {"unsure": "background", **_RHO}),
    "every-guess": Form("equations, every guess counts", _EVERY_GUESS),
    "bounded": Form("the same, weights in [0.5, 5]", {**_EVERY_GUESS, "weight_bounds": [0.5, 5.0]}),
    "without-fs": Form("the same without L_FS", {**_EVERY_GUESS, "preset": "without-fsc"}),
    "released": Form(
        "released program",
        {"mode": "code", "released_monitor": False, "unsure": "background", **_RHO},
    ),
    "mib": Form("MiB", {"preset": "mib", "unsure": "background", **_RHO}),
    "rcil": Form("RCIL, a simple form", {"preset": "rcil", "unsure": "background", **_RHO}),
}


@dataclass(frozen=True)
class Footing:
    """Data, tasks and training that all forms have alike."""

    title: str
    scenario: str
    fields: Mapping[str, Any]
    first_epochs: int | None = None
    """Of pictures, which are those of a file: how often the first task's are seen in one place,
    before all forms go on with what comes of it. None: the fleet learns it, in each run anew."""
    rates_of: str = ""
    """The footing whose search for rates counts where this one has none of its own."""


_TOLD = "method.settings.detection"
_RATE = "method.settings.rate"
_DIGITS = {
    "devices.partition.image_share": 0.4,
    "rounds.cohort": 2,
    "rounds.per_stage": 4,
    "evaluation.every_rounds": 4,
    _TOLD: "stage",
}
_PICTURES = {
    "stages.order": None,
    "stages.classes": None,
    "stages.setting": None,
    "devices.partition.class_share": 1.0,
    "devices.count": 2,
    "devices.groups.rule": "none",
    "devices.groups.joining": 0,
    "rounds.cohort": 2,
    "rounds.per_stage": 3,
    "evaluation.every_rounds": 3,
    "method.settings.epochs": 3,
    "method.settings.batch": 4,
    "method.settings.rate": 0.02,
    _TOLD: "stage",
    "method.settings.observers": "cohort",
}
_IN_ONE_PLACE = {
    "devices.partition.image_share": 1.0,
    "devices.count": 1,
    "rounds.cohort": 1,
    "rounds.per_stage": 1,
    "method.settings.batch": 8,
    "method.settings.first_rate": 0.05,
}
"""How the first task of pictures is learned."""
FOOTINGS: Mapping[str, Footing] = {
    "digits": Footing(
        "scenes of digits that show digits of later tasks as background",
        "digits-fbl",
        {**_DIGITS, "data.scenes.train": 600},
    ),
    "digits-disjoint": Footing(
        "scenes of digits that show none of later tasks",
        "digits-fbl",
        {**_DIGITS, "data.scenes.train": 1500, "stages.scenes": "disjoint"},
        rates_of="digits",
    ),
    "camvid": Footing(
        "CamVid at 72 by 96 pixels, eight classes, 4-4",
        "camvid-fbl",
        {
            **_PICTURES,
            "stages.lists": [
                ["sky", "building", "road", "tree"],
                ["pavement", "car", "sign_symbol", "fence"],
            ],
            "backbone.size": [72, 96],
            "devices.partition.image_share": 0.1,
        },
        first_epochs=12,
    ),
    "msrc": Footing(
        "MSRC at 80 by 80 pixels, 13 classes, 7-6",
        "camvid-fbl",
        {
            **_PICTURES,
            "stages.lists": [
                ["building", "grass", "tree", "cow", "sheep", "sky", "road"],
                ["face", "car", "flower", "bicycle", "book", "aeroplane"],
            ],
            "backbone.size": [80, 80],
            "devices.partition.image_share": 0.25,
        },
        first_epochs=24,
    ),
}
"""In both kinds of digit scenes a device has 98 scenes of the second task."""


@dataclass(frozen=True)
class Files:
    """Where the data of footings lie, by footing, and the trunk of their networks."""

    packs: Mapping[str, Path]
    trunk: Path | None = None
    firsts: Path = Path()
    """The folder of networks that know the first task."""

    def first_weights(self, footing: str, seed: int) -> Path:
        """Return the file of the network that knows a footing's first task."""
        return self.firsts / f"{footing}-first-{seed}.safetensors"

    def data(self, footing: str) -> dict[str, Any]:
        """Return what names the data. Raises `ScenarioError` without the file it needs."""
        if footing not in self.packs:
            raise ScenarioError(f"--pack: no file for {footing}; give {footing}=FILE.npz")
        return {"data.set": "segmentation-npz", "data.root": self.packs[footing]}


@dataclass(frozen=True)
class Case:
    """One run: a form on a footing, its seed, and its rate."""

    footing: str
    form: str
    seed: int
    rate: float = 1.0
    """Times the footing's rate in later tasks; the first task is alike for all."""


def changes(case: Case, files: Files, more: Sequence[str] = ()) -> list[str]:
    """Return what a run sets in its scenario. Raises `ScenarioError` without the file it needs."""
    footing, form = case.footing, case.form
    found = FOOTINGS[footing]
    told = dict(found.fields)
    if found.first_epochs is not None:
        told |= files.data(footing)
        told["method.first_weights"] = files.first_weights(footing, case.seed)
        told["method.settings.base"] = "central"
    told |= {f"method.settings.{name}": value for name, value in FORMS[form].settings.items()}
    if case.rate != 1:
        told[_RATE] = round(case.rate * _own_rate(found), 6)
    told["seeds"] = [case.seed]
    return [*as_changes(told), *more]


def first_changes(footing: str, seed: int, files: Files) -> list[str]:
    """Return what the run sets that learns a footing's first task. Raises `ScenarioError`."""
    found = FOOTINGS[footing]
    told = {**found.fields, **_IN_ONE_PLACE, **files.data(footing)}
    told["stages.lists"] = told["stages.lists"][:1]
    told["method.settings.epochs"] = found.first_epochs
    if files.trunk is not None:
        told["method.trunk"] = files.trunk
    return as_changes(told | {"evaluation.every_rounds": 1, "seeds": [seed]})


def _own_rate(footing: Footing) -> float:
    """Return the rate of later tasks that a footing's forms have."""
    if _RATE in footing.fields:
        return float(footing.fields[_RATE])
    return float(load_scenario(footing.scenario).method.settings[_RATE.rpartition(".")[2]])
