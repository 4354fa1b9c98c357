"""Forms of FBL's loss on several footings: what is set for each, and the runs of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.papers.fbl_tables.cases import CASES
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
}


@dataclass(frozen=True)
class Footing:
    """Data, tasks and training that all forms have alike."""

    title: str
    scenario: str
    fields: Mapping[str, Any]
    pack: bool = False
    """Whether pictures are those of a file."""
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
    **CASES["camvid"].fields,
    "backbone.size": [48, 64],
    "rounds.per_stage": 3,
    "evaluation.every_rounds": 3,
    "method.settings.epochs": 2,
}
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
    "camvid": Footing("CamVid at 48 by 64 pixels, 5-3", "camvid-fbl", _PICTURES, pack=True),
    "msrc": Footing(
        "MSRC at 56 by 56 pixels, 11-5",
        "camvid-fbl",
        {
            **_PICTURES,
            "backbone.size": [56, 56],
            "stages.classes": 21,
            "stages.setting": "11-5",
            "devices.partition.image_share": 0.2,
        },
        pack=True,
    ),
}
"""In both kinds of digit scenes a device has 98 scenes of the second task."""


@dataclass(frozen=True)
class Files:
    """Where the data of footings lie, by footing, and the trunk of their networks."""

    packs: Mapping[str, Path]
    trunk: Path | None = None


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
    if found.pack:
        if footing not in files.packs:
            raise ScenarioError(f"--pack: no file for {footing}; give {footing}=FILE.npz")
        told |= {"data.set": "segmentation-npz", "data.root": files.packs[footing]}
        if files.trunk is not None:
            told["method.trunk"] = files.trunk
    told |= {f"method.settings.{name}": value for name, value in FORMS[form].settings.items()}
    if case.rate != 1:
        told[_RATE] = round(case.rate * _own_rate(found), 6)
    told["seeds"] = [case.seed]
    return [*as_changes(told), *more]


def _own_rate(footing: Footing) -> float:
    """Return the rate of later tasks that a footing's forms have."""
    if _RATE in footing.fields:
        return float(footing.fields[_RATE])
    return float(load_scenario(footing.scenario).method.settings[_RATE.rpartition(".")[2]])
