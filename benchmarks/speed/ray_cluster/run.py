"""Let fleets learn with workers on Ray: whether digests are equal, and what rounds cost.

Equal: one process, workers in processes, 1, 2 and 4 workers on Ray, two nodes of Ray in network
namespaces (as root, where there is `ip`), and runs in which workers are killed at random. A
difference ends the command with status 1.

Seconds of a round, on the wall, all ways in turn: ResNet-8 that is trained, and a thousand agents
of 10,000 floats that train nothing.

    python -m benchmarks.speed.ray_cluster.run [--seeds 50] [--turns 3]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.speed.fleet_overhead.sides.fleetledger_side import HIDDEN
from benchmarks.speed.ray_cluster.fleets import REMEMBERING, RESNET8
from benchmarks.speed.ray_cluster.machines import HEAD, PORT, can_be_made, on, two_nodes

RESULTS = RESULTS_FOLDER / "ray_cluster.json"
ALONE: Mapping[str, Any] = {}
WAYS: Mapping[str, Mapping[str, Any]] = {
    "one process": ALONE,
    "1 worker in a process": {"workers": 1},
    "1 worker on Ray": {"kind": "ray", "workers": 1},
    "2 workers on Ray": {"kind": "ray", "workers": 2},
    "4 workers on Ray": {"kind": "ray", "workers": 4},
}
TIMED = ("one process", "1 worker in a process", "1 worker on Ray", "2 workers on Ray")
ECHO: Mapping[str, Any] = {
    "data": {"set": "digits"},
    "stages": {"classes": 10, "count": 1},
    "devices": {"count": 1000, "partition": {"rule": "iid"}},
    "rounds": {"per_stage": 8, "quorum": 1.0},
    "method": {"name": "echo", "settings": {"hidden": HIDDEN[10_000]}},
    "evaluation": {"every_rounds": 8},
}


def ran(
    content: Mapping[str, Any],
    engine: Mapping[str, Any],
    seed: int | None = None,
    before: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return what came of a fleet in a program of its own; raise `RuntimeError` for none."""
    asked = json.dumps({"content": content, "engine": engine, "seed": seed})
    command = [*before, sys.executable, "-m", "benchmarks.speed.ray_cluster.fleets", asked]
    own = {**(environment or os.environ), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{engine}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def digests(seeds: int) -> dict[str, Any]:
    """Return by way whether its digests are those of one process, and how many were killed."""
    whole = ran(REMEMBERING, ALONE)["digests"]
    same: dict[str, Any] = {"digests": len(whole)}
    for name, engine in WAYS.items():
        same[name] = ran(REMEMBERING, engine)["digests"] == whole
    if can_be_made():
        with (
            tempfile.TemporaryDirectory(prefix="ray-nodes-") as folder,
            two_nodes(Path(folder)) as environment,
        ):
            cluster = {"address": f"{HEAD}:{PORT}", "store": f"{folder}/memories"}
            engine = {"kind": "ray", "workers": 2, **cluster}
            found = ran(REMEMBERING, engine, None, on(HEAD), environment)
        same["2 nodes in network namespaces"] = found["digests"] == whole
    kills = [ran(REMEMBERING, WAYS["2 workers on Ray"], seed) for seed in range(seeds)]
    same["runs with workers killed at random"] = seeds
    same["of these with equal digests"] = sum(one["digests"] == whole for one in kills)
    same["workers killed"] = sum(one["killed"] for one in kills)
    return same


def seconds(content: Mapping[str, Any], turns: int) -> dict[str, Any]:
    """Return the median seconds of a round by way, and the range over the turns' medians."""
    found: dict[str, list[float]] = {name: [] for name in TIMED}
    for _ in range(turns):
        for name in TIMED:
            found[name].append(statistics.median(ran(content, WAYS[name])["round_seconds"]))
    return {
        name: {
            "seconds": round(statistics.median(took), 4),
            "range": [round(min(took), 4), round(max(took), 4)],
        }
        for name, took in found.items()
    }


def main() -> None:
    """Measure, write the file, and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50, help="runs in which workers are killed")
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args()
    equal = digests(asked.seeds)
    print(json.dumps(equal, indent=1))
    found = {
        "machine": describe_machine("ray", "torch", "numpy"),
        "equal": equal,
        "round of ResNet-8, 16 agents": seconds(RESNET8, asked.turns),
        "round of 1,000 agents of 10,000 floats": seconds(ECHO, asked.turns),
    }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))
    differing = [name for name, same in equal.items() if same is False]
    if differing or equal["of these with equal digests"] < asked.seeds:
        sys.exit(f"digests differ: {differing or 'where workers were killed'}")


if __name__ == "__main__":
    main()
