"""`--list`: the scenarios that ship, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from fleetledger.runtime.command_report import Column, Report
from fleetledger.runtime.count_words import count_of
from fleetledger.simulator.scenario.loading import load_scenario
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.shipped import shipped_names
from fleetledger.simulator.scenario.studies import study_names
from fleetledger.simulator.scenario.study import load_study
from fleetledger.simulator.scenario.trainer import trainer_of

EXPORTED_BY_TORCH = ("torchvision", "characters")


@dataclass(frozen=True)
class ListedScenario:
    """A scenario that ships, in words."""

    name: Annotated[str, Column("name")]
    title: Annotated[str, Column("what", of="what")]
    data: str
    devices: str
    stages: str
    seeds: str
    method: str
    needs: Annotated[str, Column("needs")]

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

    @property
    def what(self) -> str:
        """Its title, and what it runs."""
        devices = f"{self.devices} device{'' if self.devices == '1' else 's'}"
        size = f"{count_of(int(self.stages), 'stage')}, {count_of(int(self.seeds), 'seed')}"
        return f"{self.title}\n{self.method} on {self.data}, {devices}, {size}"


@dataclass(frozen=True)
class ListedStudy:
    """A study that ships."""

    name: Annotated[str, Column("name")]
    title: Annotated[str, Column("what", of="what")]
    base: str
    """The scenario that it varies."""
    forms: int

    @property
    def what(self) -> str:
        """Its title, and what it varies."""
        return f"{self.title}\n{count_of(self.forms, 'form')} of {self.base}"


class StudiesReport(Report):
    """What `simulate sweep --list` shows."""

    lines_field: ClassVar[str | None] = "studies"
    titles: ClassVar[Mapping[str, str]] = {"studies": "Studies"}
    studies: tuple[ListedStudy, ...]


class ScenariosReport(Report):
    """What `simulate --list` shows."""

    lines_field: ClassVar[str | None] = "scenarios"
    titles: ClassVar[Mapping[str, str]] = {"scenarios": "Scenarios"}
    scenarios: tuple[ListedScenario, ...]


def shipped_rows() -> list[ListedScenario]:
    """Return a row for every scenario that ships."""
    return [ListedScenario.of(name, load_scenario(name)) for name in shipped_names()]


def study_rows() -> list[ListedStudy]:
    """Return a row for every study that ships."""
    studies = {name: load_study(name) for name in study_names()}
    return [
        ListedStudy(name, study.title, study.base, sum(1 for _ in study.forms()))
        for name, study in studies.items()
    ]


def needs(scenario: Scenario) -> str:
    """Return what a person must bring to run it: files, and extras that are large."""
    wanted = []
    if scenario.data.root is None and scenario.data.known.on_disk:
        wanted.append("data.root")
    wanted += [Path(path).name for path in (scenario.data.root, _weights(scenario)) if path]
    exported = scenario.backbone.network in EXPORTED_BY_TORCH
    if scenario.data.known.by_torchvision or exported or trainer_of(scenario) is not None:
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
