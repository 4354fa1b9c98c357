"""What is compared, and what each case sets in the scenario of its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.papers.footing.changes import as_changes

Data = Literal["digits", "cifar"]
SCENARIOS: Mapping[Data, str] = {"digits": "digits-dcid", "cifar": "cifar100-core-dcid"}
SEEDS = (1, 2, 3)
ALPHAS = (0.1, 1.0, 10.0, 100.0)


@dataclass(frozen=True)
class Printed:
    """A row of the paper's ablation on subImageNet, 5 sessions: ResNet-18, 50 classes first."""

    average: float
    final: float | None = None


@dataclass(frozen=True)
class Case:
    """How the sites learn, and what is distilled."""

    title: str
    learner: str
    preset: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the scenario."""
    seeds: tuple[int, ...] = SEEDS
    once_on: tuple[Data, ...] = ()
    """Data on which only the first of the seeds is run."""
    printed: Printed | None = None
    data: tuple[Data, ...] = ("digits", "cifar")

    def changes(self, data: Data, core: Path | None) -> list[str]:
        """Return what the case sets in the scenario of some data."""
        settings = {"preset": self.preset, **_PINNED.get(self.learner, {}), **self.settings}
        if data == "cifar":
            settings["network"] = _NETWORKS.get(self.learner, "resnet8")
        told = {f"method.settings.{name}": value for name, value in settings.items()}
        told |= {"seeds": list(self.seeds_on(data)), **self.fields}
        if core is not None and data == "cifar":
            told["data.root"] = core
        return as_changes(told)

    def seeds_on(self, data: Data) -> tuple[int, ...]:
        """Return the seeds that are run on some data."""
        return self.seeds[:1] if data in self.once_on else self.seeds


_PINNED: Mapping[str, Mapping[str, Any]] = {
    "icarl": {"evaluation": "head"},
    "lucir": {"imprint_at": "sites"},
}
"""What presets set otherwise: the figures are of these."""
_NETWORKS = {"lucir": "resnet8_signed"}
"""LUCIR leaves the last ReLU out, as its program does."""


def _eight() -> dict[str, Case]:
    """Return the combinations of DCD and DAD with two learners."""
    printed = {
        "icarl": (
            Printed(60.86, 48.46),
            Printed(64.05, 53.79),
            Printed(63.61, 53.67),
            Printed(65.23, 54.16),
        ),
        "lucir": (
            Printed(63.21, 50.14),
            Printed(67.21, 56.48),
            Printed(66.30, 55.72),
            Printed(68.01, 57.92),
        ),
    }
    cases: dict[str, Case] = {}
    for learner, name in (("icarl", "iCaRL"), ("lucir", "LUCIR")):
        basic, dcd, dad, both = printed[learner]
        fedavg, dcid = f"dcil-{learner}-fedavg", f"dcid-{learner}"
        cases |= {
            f"{learner}-basic": Case(f"{name}, FedAvg", learner, fedavg, printed=basic),
            f"{learner}-dcd": Case(f"{name}, + DCD", learner, dcid, {"dad": False}, printed=dcd),
            f"{learner}-dad": Case(f"{name}, + DAD", learner, dcid, {"dcd": False}, printed=dad),
            f"{learner}-dcid": Case(f"{name}, DCID", learner, dcid, printed=both),
        }
    return cases


def _beside() -> dict[str, Case]:
    """Return the other local losses of the basic framework, and the two learners of thin source."""
    cases = {
        f"{learner}-{local}": Case(
            f"{name}, {title}", learner, f"dcil-{learner}-{local}", once_on=("cifar",)
        )
        for learner, name in (("icarl", "iCaRL"), ("lucir", "LUCIR"))
        for local, title in (("fedmax", "FedMAX"), ("fedprox", "FedProx"))
    }
    for learner, name in (("erdil", "ERDIL, simple form"), ("tpcil", "TPCIL, simple form")):
        once: tuple[int, ...] = SEEDS[:1]
        basic = Case(f"{name}, FedAvg", learner, f"dcil-{learner}-fedavg", seeds=once)
        cases[f"{learner}-basic"] = basic
        cases[f"{learner}-dcid"] = Case(f"{name}, DCID", learner, f"dcid-{learner}", seeds=once)
    return cases


def _skewed() -> dict[str, Case]:
    """Return DCID and the basic framework where each site draws its mix of classes."""
    return {
        f"site-alpha-{alpha:g}-{kind}": Case(
            f"iCaRL, {title}, each site Dirichlet {alpha:g}",
            "icarl",
            preset,
            fields={
                "devices.partition.rule": "site-dirichlet",
                "devices.partition.beta": alpha,
            },
            data=("cifar",),
        )
        for alpha in ALPHAS
        for kind, title, preset in (
            ("basic", "FedAvg", "dcil-icarl-fedavg"),
            ("dcid", "DCID", "dcid-icarl"),
        )
    }


EIGHT = _eight()
BESIDE = _beside()
SKEWED = _skewed()
CASES: Mapping[str, Case] = {**EIGHT, **BESIDE, **SKEWED}
