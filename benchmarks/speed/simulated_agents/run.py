"""Measure what a simulated agent costs: seconds per stage and memory, for fleets of several sizes.

Engine `inprocess`, with agents that are told what to do and with agents that act by themselves, on
the handwritten digits, five stages of two classes, STSA in its compact form. Every device draws one
of the stage's two classes, or both, and a tenth of their images, so that a device's own work is the
same in every fleet. Each fleet is run in a process of its own. Measured:

    seconds     of a stage on the wall, divided by the devices; the first stage, in which all
                devices are made and connect, and the median of the others
    processor   the same in seconds of processor time, which other programs disturb less
    method      seconds on the wall of what is not the fleet: features, statistics, intake, solve,
                export
    memory      the largest resident memory of the process
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from fleetledger.simulator.backbones.loading import load_backbone
from fleetledger.simulator.datasets.loading import load_split
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.features.bank import open_bank
from fleetledger.simulator.plan.plan_maker import make_plan
from fleetledger.simulator.records import RoundRecord
from fleetledger.simulator.run.engines import make_engine
from fleetledger.simulator.scenario.model import Scenario

PACKAGES = ("numpy", "onnxruntime", "pydantic", "sqlite-utils")
RESULTS = RESULTS_FOLDER / "simulated_agents.json"
SEED = 1
METHOD = ("features", "statistics", "intake", "solve", "export")


class Quiet:
    """Watches and says nothing."""

    def stage(self, number: int, total: int) -> None:
        """Say nothing of a stage."""

    def phase(self, text: str) -> None:
        """Say nothing of a phase."""

    def remark(self, text: str) -> None:
        """Say nothing of remarks."""

    def agents(self, done: int, total: int) -> None:
        """Say nothing of agents."""

    def round_ended(self, record: RoundRecord) -> None:
        """Say nothing of what a round measured."""

    def round(self, number: int, total: int) -> None:
        """Say nothing of rounds."""


def scenario_of(agents: int, kind: str) -> Scenario:
    """Return the scenario of a fleet of agents that are `told`, or are `acting`."""
    engine: dict[str, Any] = {"latency_ms": 5.0} if kind == "acting" else {}
    partition = {"rule": "class-share", "class_share": 0.6, "image_share": 0.1}
    return Scenario.model_validate(
        {
            "title": f"{agents} agents learn the digits",
            "stages": {"count": 5},
            "devices": {"count": agents, "partition": partition},
            "method": {"name": "stsa", "settings": {"form": "compact", "map_width": 256}},
            "engine": engine,
        }
    )


def measure(agents: int, kind: str, folder: Path) -> dict[str, Any]:
    """Run a fleet in this process and return its numbers."""
    scenario = scenario_of(agents, kind)
    split = load_split(scenario.data, SEED)
    backbone = load_backbone(scenario.backbone, split)
    prepared = Prepared(
        scenario=scenario,
        split=split,
        plan=make_plan(scenario, split, SEED),
        backbone_name=backbone.name,
        backbone=backbone.data,
        preprocessing=backbone.preprocessing,
        features=open_bank(split, backbone, folder / "cache", "cpu", Quiet()),
    )
    engine = make_engine(prepared, folder / "run", Quiet())
    stages = []
    for stage in prepared.plan.stages:
        wall, processor = time.perf_counter(), time.process_time()
        record = engine.learn(stage)
        stages.append(
            {
                "seconds": time.perf_counter() - wall,
                "processor": time.process_time() - processor,
                "method": sum(record.seconds[name] for name in METHOD),
                "contributions": record.contributions,
                "samples": sum(item.counted_samples for item in record.devices.values()),
            }
        )
    engine.close()
    return {"agents": agents, "kind": kind, "stages": stages, "memory_mib": record.peak_memory_mib}


def measure_apart(agents: int, kind: str) -> dict[str, Any]:
    """Run a fleet in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.speed.simulated_agents.run", "--here", folder]
        command += ["--agents", str(agents), "--kinds", kind]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def summarise(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians over the runs of one size."""
    agents = runs[0]["agents"]

    def per_agent(name: str, first: bool) -> float:
        values = [
            statistics.median(
                stage[name] for stage in (run["stages"][:1] if first else run["stages"][1:])
            )
            for run in runs
        ]
        return round(statistics.median(values) / agents * 1000, 2)

    kinds = ("seconds", "processor", "method")
    return {
        "first_stage_ms_per_agent": {name: per_agent(name, True) for name in kinds},
        "later_stages_ms_per_agent": {name: per_agent(name, False) for name in kinds},
        "memory_mib": round(statistics.median(run["memory_mib"] for run in runs), 1),
        "samples_per_agent_and_stage": round(
            statistics.mean(s["samples"] for run in runs for s in run["stages"]) / agents, 1
        ),
        "runs": len(runs),
    }


def main() -> None:
    """Measure all sizes, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--kinds", nargs="+", default=["told", "acting"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        agents, kind = arguments.agents[0], arguments.kinds[0]
        print(json.dumps(measure(agents, kind, arguments.here)))
        return
    runs: dict[tuple[int, str], list[dict[str, Any]]] = {
        (agents, kind): [] for agents in arguments.agents for kind in arguments.kinds
    }
    for _ in range(arguments.rounds):
        for (agents, kind), found in runs.items():
            found.append(measure_apart(agents, kind))
    results = {
        "command": " ".join(["python -m benchmarks.speed.simulated_agents.run", *sys.argv[1:]]),
        "machine": describe_machine(*PACKAGES),
        "fleets": {f"{agents} {kind}": summarise(found) for (agents, kind), found in runs.items()},
    }
    text = json.dumps(results, indent=2)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
