"""What an agent's process holds: one that trains FedHAF beside one that sends statistics.

    python -m benchmarks.papers.fedhaf_tables.memory --core CORE.npz --backbone NET.onnx

A broker, a coordinator and one agent run as processes (engine `mqtt`). The agent has 100 images of
ten classes and MobileNetV2 at 112 pixels, and learns one stage: its statistics once, or three
rounds of training. Read from /proc when the stage's model runs on it: resident memory, and the most
it ever was.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from contextlib import closing
from pathlib import Path

import psutil
from rich.console import Console

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.papers.fedhaf_tables.cases import SCENARIO, Material
from fleetledger.simulator.engines.mqtt.engine import MqttEngine
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.run.progress import Screen
from fleetledger.simulator.scenario.loading import load_scenario

RESULTS = RESULTS_FOLDER / "fedhaf_agent_memory.json"
CASES = {"stsa": ["method.settings.map_width=1250"], "fedhaf": []}
SMALL = [
    "seeds=[1]",
    "data.per_class=10",
    "data.test_per_class=5",
    "stages.classes=10",
    "stages.count=1",
    "devices.count=1",
    "rounds.per_stage=3",
    "rounds.cohort=1",
    "engine.kind=mqtt",
]


def memory_of(method: str, material: Material, folder: Path) -> dict[str, float]:
    """Return mebibytes of the agent after a stage."""
    changes = [f"method.name={method}", *CASES[method], *SMALL, *material.changes()]
    scenario = load_scenario(SCENARIO, changes)
    with Screen(Console(stderr=True), 1) as screen:
        screen.stage(1, 1)
        prepared = PreparedSeed.load(scenario, 1).prepare(screen)
        with closing(MqttEngine(prepared, folder, screen)) as engine:
            engine.learn(prepared.plan.stages[0])
            (agent,) = (
                process
                for process in psutil.process_iter(["cmdline"])
                if {"-m", "fleetledger.device_agent"} <= set(process.info["cmdline"] or ())
                and any(str(folder) in part for part in process.info["cmdline"])
            )
            status = Path(f"/proc/{agent.pid}/status").read_text(encoding="utf-8").splitlines()
    kibibytes = {line.split(":")[0]: line.split()[1] for line in status if line.endswith(" kB")}
    return {
        "resident": round(int(kibibytes["VmRSS"]) / 1024, 1),
        "peak": round(int(kibibytes["VmHWM"]) / 1024, 1),
    }


def main() -> None:
    """Measure both and store them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--core", type=Path, required=True)
    parser.add_argument("--backbone", type=Path, required=True)
    arguments = parser.parse_args()
    material = Material(arguments.core, arguments.backbone)
    with tempfile.TemporaryDirectory() as scratch:
        found = {name: memory_of(name, material, Path(scratch, name)) for name in CASES}
    told = {"machine": describe_machine("onnxruntime", "torch", "numpy"), "mebibytes": found}
    RESULTS.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
