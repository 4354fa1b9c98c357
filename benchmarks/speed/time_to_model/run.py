"""Measure the time from "contribution accepted" to "model active", and a model's way to many.

A coordinator process, a Mosquitto and agents that share a few processes, on loopback; no rollout
groups. New images appear with one device, it contributes, and its contribution's entry starts the
clock; it stops, for each device, when the agent runs the model that was solved from it. Between
them stand, from the ledger: solved, exported, desired. What a device adds by trying a model in a
process of its own is measured on as many devices as there are processors. Then `fan_out`.

    python -m benchmarks.speed.time_to_model.run [--devices 200] [--models 5] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.speed.time_to_model.fan_out import (
    FanOut,
    Moved,
    by_bare_paho,
    by_blocks,
    by_hashing_paho,
    by_http,
    by_https,
)
from benchmarks.speed.time_to_model.fleet import ArrivalFleet, arrival_fleet, until
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.models.entries import ModelDesired, ModelExported, ModelSolved
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.brokers import MosquittoBroker

RESULTS = RESULTS_FOLDER / "time_to_model.json"
_REST_SECONDS = 3.0
"""Between two models: longer than the shortest time between two solves."""


@dataclass(frozen=True)
class Limit:
    """What the median of a figure is to keep."""

    figure: str
    bound: float
    at_most: bool = False

    def holds(self, value: float) -> bool:
        """Whether a value keeps it."""
        return value <= self.bound if self.at_most else value >= self.bound


P95 = Limit("p95_active", 5.0, at_most=True)
RATIOS = (Limit("blocks_to_hashed", 0.9), Limit("http_to_hashed", 1.0))
KINDS = {
    "blocks": by_blocks,
    "http": by_http,
    "https": by_https,
    "bare": by_bare_paho,
    "hashed": by_hashing_paho,
}


def one_model(fleet: ArrivalFleet, version: int) -> dict[str, float]:
    """Have one more model made of new images, and return what it took, in seconds."""
    time.sleep(_REST_SECONDS)
    spent = fleet.processor_seconds()
    fleet.deliver(20)
    until(lambda: len(fleet.runs[version]) == len(fleet.devices), f"model {version} everywhere")
    used = {name: after - spent[name] for name, after in fleet.processor_seconds().items()}
    accepted, stages = moments(fleet.home, version)
    late = sorted((at - accepted) / 1e9 for at in fleet.runs[version].values())
    devices = len(fleet.devices)
    return {
        **{name: (at - accepted) / 1e9 for name, at in stages.items()},
        "first_active": late[0],
        "median_active": statistics.median(late),
        "p95_active": late[min(devices - 1, int(0.95 * devices))],
        "last_active": late[-1],
        "coordinator_processor_s": used["coordinator"],
        "agent_processor_s_each": used["agents"] / devices,
        "trial_processor_s_each": used["trials"] / devices,
    }


def moments(home: Path, version: int) -> tuple[int, dict[str, int]]:
    """Return when the contribution of a model was accepted, and when what followed was entered."""
    with ledger_of(home) as ledger:
        kinds = {"solved": ModelSolved, "exported": ModelExported, "desired": ModelDesired}
        found = {
            name: next(ledger.find(kind, where={"version": version}))
            for name, kind in kinds.items()
        }
        *_, accepted = ledger.find(ContributionAccepted, stop=found["solved"].index)
    return accepted.time_ns, {name: entry.time_ns for name, entry in found.items()}


def arrivals(devices: int, processes: int, models: int, *, trial: bool) -> dict[str, Any]:
    """Return what models took in a fleet: the first, with all its files, and later ones."""
    with (
        tempfile.TemporaryDirectory(dir=Path()) as scratch,
        arrival_fleet(Path(scratch), devices, processes, trial=trial) as fleet,
    ):
        found = []
        for version in range(1, models + 2):
            found.append(one_model(fleet, version))
            print(json.dumps(found[-1]), file=sys.stderr)
    return {
        "devices": devices,
        "processes": processes,
        "trial": trial,
        "first_model_s": spreads(found[:1]),
        "later_models_s": spreads(found[1:]),
    }


def fan_out(plan: FanOut, rounds: int) -> dict[str, Any]:
    """Return what each kind of fan-out took, by turns, and ratios within each round."""
    moved: list[dict[str, Moved]] = []
    with (
        tempfile.TemporaryDirectory(dir=Path()) as scratch,
        MosquittoBroker(Path(scratch) / "broker", plan.devices) as broker,
    ):
        for number in range(rounds):
            turn = sorted(KINDS, reverse=bool(number % 2))
            folder = Path(scratch) / str(number)
            moved.append({kind: KINDS[kind](broker, plan, folder / kind) for kind in turn})
            print(moved[-1], file=sys.stderr)
        mosquitto = broker.version
    total = plan.size * len(plan.devices)
    figures = [
        {
            f"{kind}_{name}": value
            for kind, one in both.items()
            for name, value in (
                ("bytes_per_second", total / one.seconds),
                ("processor_seconds", one.processor_seconds),
                ("sender_processor_seconds", one.sender),
                ("receivers_processor_seconds", one.receivers),
                ("broker_processor_seconds", one.broker),
            )
        }
        | {f"{kind}_to_hashed": both["hashed"].seconds / both[kind].seconds for kind in KINDS}
        | {"blocks_to_bare": both["bare"].seconds / both["blocks"].seconds}
        for both in moved
    ]
    return {
        "receivers": len(plan.devices),
        "processes": plan.processes,
        "model_bytes": plan.size,
        "mosquitto": mosquitto,
        **spreads(figures),
    }


def spreads(runs: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return median and range of each figure, to three significant places."""
    values = {name: [one[name] for one in runs] for name in sorted(runs[0])}
    return {
        name: {
            key: float(f"{value:.3g}")
            for key, value in (
                ("median", statistics.median(of_one)),
                ("min", min(of_one)),
                ("max", max(of_one)),
            )
        }
        for name, of_one in values.items()
    }


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Run all; return what is written down."""
    load = os.getloadavg()[0]
    cores = os.cpu_count() or 1
    names = [DeviceId(f"device-{number:03}") for number in range(given.receivers)]
    plan = FanOut(names, round(given.megabytes * 1_000_000), given.receiver_processes)
    if given.fan_out_only:
        return fan_out(plan, given.rounds) | {"broken": []}
    without = arrivals(given.devices, given.processes, given.models, trial=False)
    tried = arrivals(cores, cores, given.models, trial=True)
    fanned = fan_out(plan, given.rounds)
    broken = [
        f"{limit.figure}: {value}, limit {limit.bound}"
        for limit, figures in ((P95, without["later_models_s"]), *((one, fanned) for one in RATIOS))
        if not limit.holds(value := figures[limit.figure]["median"])
    ]
    return {
        "command": f"python -m benchmarks.speed.time_to_model.run {' '.join(sys.argv[1:])}".strip(),
        "machine": describe_machine("paho-mqtt", "onnxruntime"),
        "load_before": round(load, 1),
        "all_devices": without,
        "a_processor_for_each_device": tried,
        "fan_out": fanned,
        "broken": broken,
    }


def main() -> None:
    """Run all, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=200)
    parser.add_argument("--processes", type=int, default=12, help="that the agents share")
    parser.add_argument("--models", type=int, default=5, help="after the first")
    parser.add_argument("--receivers", type=int, default=20)
    parser.add_argument("--receiver-processes", type=int, default=4)
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fan-out-only", action="store_true", help="leave out the fleets")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    found = measure(given)
    text = json.dumps(found, indent=2)
    given.out.write_text(text + "\n", encoding="utf-8")
    print(text)
    for one in found["broken"]:
        print("does not hold:", one)


if __name__ == "__main__":
    main()
