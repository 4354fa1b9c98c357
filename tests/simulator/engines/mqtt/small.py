"""A small fleet that learns a few digits, and programs of which nothing may be left."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from fleetledger.simulator.backbones.loading import load_backbone
from fleetledger.simulator.datasets.loading import load_split
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.features.bank import open_bank
from fleetledger.simulator.plan.plan_maker import make_plan
from fleetledger.simulator.records import RoundRecord
from fleetledger.simulator.scenario.model import Scenario


@dataclass
class Quiet:
    """Watches and says nothing."""

    seen: list[str] = field(default_factory=list)

    def stage(self, number: int, total: int) -> None:
        self.seen.append(f"stage {number} of {total}")

    def phase(self, text: str) -> None:
        self.seen.append(text)

    def remark(self, text: str) -> None:
        self.seen.append(text)

    def agents(self, done: int, total: int) -> None:
        self.seen.append(f"{done} of {total}")

    def round_ended(self, record: RoundRecord) -> None:
        self.seen.append(f"round {record.number} ended")


def small_scenario(form: str = "exact", **sections: Any) -> Scenario:
    """Three devices, two stages of two classes; parts of at most 40 images, so several of each."""
    settings = {"form": form, "map_width": 64, "max_samples_per_part": 40}
    content = {
        "title": "a few digits",
        "data": {"set": "digits"},
        "stages": {"classes": 4, "count": 2},
        "devices": {"count": 3},
        "method": {"name": "stsa", "settings": settings},
    }
    return Scenario.model_validate(content | sections)


def prepare(scenario: Scenario, cache: Path) -> Prepared:
    split = load_split(scenario.data, 1)
    backbone = load_backbone(scenario.backbone, split)
    return Prepared(
        scenario=scenario,
        split=split,
        plan=make_plan(scenario, split, 1),
        backbone_name=backbone.name,
        backbone=backbone.data,
        preprocessing=backbone.preprocessing,
        features=open_bank(split, backbone, cache, "cpu", Quiet()),
    )


def processes_of(folder: Path) -> list[psutil.Process]:
    """Return the running programs that have a path below `folder` on their command line."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if any(str(folder) in word for word in words) and process.info["status"] != "zombie":
            found.append(process)
    return found
