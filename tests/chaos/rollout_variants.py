"""The small fleets that get a candidate once they have learned: good and bad ones, many plans.

What is measured of time and memory is this machine's, and decides nothing here; a device that is
away is waited for, and devices enrol, so that none is installed anew and has nothing to compare.
So the verdicts are those of the run in which nothing fails.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fleetledger.coordinator.topics.rollouts.plan import GatePlan, RolloutPlan
from fleetledger.simulator.datasets.loading import DataSettings
from fleetledger.simulator.plan.partitions import PartitionSettings
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.rollout import CandidateSettings, RolloutSettings
from fleetledger.simulator.scenario.sections import (
    DeviceSettings,
    MethodSettings,
    StageSettings,
)

TEST_PER_CLASS = 10
_DEVICES = 6
_HELD_OUT = 24
"""Six or so of each class."""
_GATES = GatePlan(
    latency=None,
    memory=None,
    entropy_nats=None,
    agreement=None,
    alike=1,
    min_devices=2,
    min_images=40,
)
_PLAN: dict[str, Any] = {
    "groups": (0.1, 0.8, 1.0),  # one device, five, and all: shares, as who is there may not matter
    "soak_seconds": 5.0,
    "settle_seconds": 5.0,
    "retry_seconds": 5.0,
    "reach_seconds": 1e7,
    "deadline_hours": 1e4,
    "gates": _GATES,
}
_FLEETS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("a good candidate", "good", {}),
    ("a good candidate, measured in every group before it runs", "good", {"shadow": "all"}),
    ("a class is lost", "bad-class", {"on_unsure": "back"}),
    (
        "a class is lost, measured in every group before it runs",
        "bad-class",
        {"shadow": "all", "on_unsure": "back"},
    ),
    ("a class is lost, measured once it runs", "bad-class", {"shadow": "off", "on_unsure": "back"}),
    ("a candidate that does not run", "crashing", {"groups": (0.78, 1.0), "retries": 1}),
    ("a class is lost, and a person decides", "bad-class", {}),
)
"""Title, kind of candidate, what differs of the plan."""


def rollout_variants(pictures: Path) -> tuple[Scenario, ...]:
    """Return the scenarios, which learn from a file with `TEST_PER_CLASS` test pictures a class."""
    return tuple(
        Scenario(
            title=title,
            seeds=(number,),
            data=DataSettings(set="npz", root=str(pictures)),
            stages=StageSettings(count=1),
            devices=DeviceSettings(
                count=_DEVICES, partition=PartitionSettings(rule="dirichlet", beta=1.0)
            ),
            method=MethodSettings(name="stsa", settings={"form": "exact", "map_width": 32}),
            rollout=RolloutSettings(
                candidate=CandidateSettings.model_validate({"kind": kind}),
                held_out=_HELD_OUT,
                plan=RolloutPlan(**{**_PLAN, **changes}),
            ),
        )
        for number, (title, kind, changes) in enumerate(_FLEETS)
    )
