"""`--list`: the scenarios that ship, one row each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rich.box import SIMPLE_HEAD
from rich.table import Table

from fleetledger.schemas.counted import count_of
from fleetledger.schemas.shown import Report
from fleetledger.simulator.scenario.loading import load_scenario
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.sections import WITHOUT_FILES
from fleetledger.simulator.scenario.shipped import shipped_names
from fleetledger.simulator.scenario.studies import study_names
from fleetledger.simulator.scenario.study import load_study
from fleetledger.simulator.scenario.trainer import trainer_of

EXPORTED_BY_TORCH = ("torchvision", "characters")
READ_BY_TORCHVISION = ("cifar10", "cifar100", "fashion-mnist", "omniglot")


@dataclass(frozen=True)
class ListedScenario:
    """A scenario that ships, in words."""

    name: str
    title: str
    data: str
    devices: str
    stages: str
    seeds: str
    method: str
    needs: str

    @classmethod
    def of(cls, name: str, scenario: Scenario) -> ListedScenario:
        """Describe a scenario."""
        return cls(
            name=name,
            title=scenario.title,
            data=scenario.data.set,
            devices=_devices(scenario),
            stages=str(scenario.stages.total),
            seeds=str(len(scenario.seeds)),
            method=scenario.method.name,
            needs=needs(scenario),
        )


@dataclass(frozen=True)
class ListedStudy:
    """A study that ships."""

    name: str
    title: str
    base: str
    """The scenario that it varies."""
    forms: int


class StudiesReport(Report):
    """What `simulate sweep --list` shows."""

    lines_field: ClassVar[str | None] = "studies"
    studies: tuple[ListedStudy, ...]


class ScenariosReport(Report):
    """What `simulate --list` shows."""

    lines_field: ClassVar[str | None] = "scenarios"
    scenarios: tuple[ListedScenario, ...]


def shipped_rows() -> list[ListedScenario]:
    """Return a row for every scenario that ships."""
    return [ListedScenario.of(name, load_scenario(name)) for name in shipped_names()]


def shipped_table(rows: Iterable[ListedScenario]) -> Table:
    """Return the rows as a table for the terminal; it fits 80 characters."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("what")
    table.add_column("needs", max_width=25)
    for row in rows:
        seeds = count_of(int(row.seeds), "seed")
        stages = count_of(int(row.stages), "stage")
        word = "device" if row.devices == "1" else "devices"
        fleet = f"{row.devices} {word}, {stages}, {seeds}"
        facts = f"{row.method} on {row.data}, {fleet}"
        table.add_row(row.name, f"{row.title}\n[dim]{facts}[/dim]", row.needs)
    return table


def study_rows() -> list[ListedStudy]:
    """Return a row for every study that ships."""
    studies = {name: load_study(name) for name in study_names()}
    return [
        ListedStudy(name, study.title, study.base, sum(1 for _ in study.forms()))
        for name, study in studies.items()
    ]


def studies_table(rows: Iterable[ListedStudy]) -> Table:
    """Return the rows as a table for the terminal; it fits 80 characters."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("what")
    for row in rows:
        forms = count_of(row.forms, "form")
        table.add_row(row.name, f"{row.title}\n[dim]{forms} of {row.base}[/dim]")
    return table


def needs(scenario: Scenario) -> str:
    """Return what a person must bring to run it: files, and extras that are large."""
    wanted = []
    if scenario.data.root is None and scenario.data.set not in WITHOUT_FILES:
        wanted.append("data.root")
    wanted += [Path(path).name for path in (scenario.data.root, _weights(scenario)) if path]
    reads = scenario.data.set in READ_BY_TORCHVISION
    exported = scenario.backbone.network in EXPORTED_BY_TORCH
    if reads or exported or trainer_of(scenario) is not None:
        wanted.append("torch")
    if scenario.engine.kind == "mqtt":
        wanted.append("a broker")
    return ", ".join(wanted) or "nothing"


def _weights(scenario: Scenario) -> str | None:
    """Return the file of weights; those that torchvision has by name come with torch."""
    weights = scenario.backbone.weights
    return weights if weights and Path(weights).suffix else None


def _devices(scenario: Scenario) -> str:
    joining = scenario.devices.groups.joining
    first = f"{scenario.devices.count:,}"
    return f"{first} +{joining}" if joining else first
