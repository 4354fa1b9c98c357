"""Baselines beside STSA, pooled heads among them: the same scenarios, seeds and frozen networks.

    python -m benchmarks.papers.statistics_baselines.run                     # digits: some minutes
    python -m benchmarks.papers.statistics_baselines.run --set cifar100 --core CORE.npz \
        --backbone NET.onnx

`cifar100` is the scenario `cifar100-stsa` with Dirichlet 0.1 and one seed, on 200 training and 50
test images per class; benchmarks/papers/simulated_cifar/run.py tells how both files are made. Run
folders stay in --runs, for `fleetledger simulate compare`; a case whose folder is there is not run
again, and one that is measured again replaces what was stored of it. Accuracies are in percent;
bytes are what a device sent in a stage, on average.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from fleetledger.learning.numerics.blas import platform_fingerprint
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.run.runs import run_scenario
from fleetledger.simulator.scenario.loading import load_scenario

FOLDER = RESULTS_FOLDER / "statistics_baselines"
ACCURACIES = ("average_incremental_accuracy", "final_accuracy", "forgetting")


@dataclass(frozen=True)
class Case:
    """One run of the fleet: what it learns with."""

    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    devices: int = 5
    publishes: bool = False
    """Whether owners must allow it, because features of images leave the devices."""

    def changes(self) -> list[str]:
        """Return what the case sets in its scenario."""
        told = {f"method.settings.{name}": value for name, value in self.settings.items()}
        allowed = {"devices.policy.publish_features": "true"} if self.publishes else {}
        fields = {"method.name": self.method, "devices.count": self.devices, **allowed, **told}
        return [f"{name}={value}" for name, value in fields.items()]


NO_MAP = {"map": "none"}
ESTIMATED = {"form": "estimated"}
CASES = {
    "fedncm": Case("fedncm"),
    "fedcof": Case("fedcof"),
    "fedcof, shrinkage 1": Case("fedcof", {"shrinkage": 1}),
    "fed3r": Case("fed3r"),
    "stsa-e, 10 groups, no map": Case("stsa", {**NO_MAP, **ESTIMATED}),
    "stsa, no map": Case("stsa", NO_MAP),
    "stsa, no map, cosine": Case("stsa", {**NO_MAP, "head": "cosine"}),
    "stsa-e, 10 groups": Case("stsa", ESTIMATED),
    "stsa": Case("stsa"),
    "pooled": Case("pooled", publishes=True),
    "pooled, moments": Case("pooled", {"publish": "moments"}, publishes=True),
    "pooled, 50 devices": Case("pooled", devices=50, publishes=True),
    "pooled, moments, 50 devices": Case(
        "pooled", {"publish": "moments"}, devices=50, publishes=True
    ),
    "fedncm, 50 devices": Case("fedncm", devices=50),
    "fedcof, 50 devices": Case("fedcof", devices=50),
    "fed3r, 50 devices": Case("fed3r", devices=50),
    "stsa-e, 1 group, no map, 50 devices": Case(
        "stsa", {**NO_MAP, **ESTIMATED, "groups": 1}, devices=50
    ),
}
"""By name. STSA's map is as wide as its scenario says: 1250 for digits, 5000 for CIFAR-100."""
WITH_MAP = ("stsa-e, 10 groups", "stsa")
DEFAULT = {
    "digits": [name for name, case in CASES.items() if case.devices == 5],
    "cifar100": [name for name in CASES if name not in WITH_MAP],
}
"""What is run where no case is named; STSA with M = 5000 is benchmarks/papers/simulated_cifar's."""


def changes_of(which: str, arguments: argparse.Namespace) -> list[str]:
    """Return what every case of a set changes in its scenario."""
    if which == "digits":
        return ["evaluation.pooled_reference=false"]
    return [
        "seeds=[1]",
        "devices.partition.beta=0.1",
        "data.set=npz",
        f"data.root={arguments.core.resolve()}",
        f'backbone={{network = "file", file = "{arguments.backbone.resolve()}"}}',
    ]


def outcome(results: RunResults) -> dict[str, Any]:
    """Return accuracies of every seed, and the bytes that a device sends."""
    seeds = results.seeds
    told: dict[str, Any] = {
        name: {seed: round(100 * value, 2) for seed, value in results.headline(name).items()}
        for name in ACCURACIES
    }
    stages, devices = results.stages, results.scenario.devices.count
    sent = [metrics.headline["bytes_up"] / stages / devices for metrics in seeds.values()]
    return {**told, "bytes_sent_per_device_and_stage": round(sum(sent) / len(sent))}


def measure(scenario: str, changes: Sequence[str], case: Case, folder: Path) -> RunResults:
    """Run a case into `folder`, or read what it holds already."""
    done = folder / "results.json"
    if done.exists():
        return RunResults.model_validate_json(done.read_text(encoding="utf-8"))
    loaded = load_scenario(scenario, [*case.changes(), *changes])
    return run_scenario(loaded, folder, Console(stderr=True))


def main() -> None:
    """Measure, print and store, case by case."""
    arguments = _arguments()
    which = arguments.set
    scenario = {"digits": "digits", "cifar100": "cifar100-stsa"}[which]
    path = FOLDER / f"{which}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    changes = changes_of(which, arguments)
    machine = {**describe_machine("numpy", "onnxruntime"), **platform_fingerprint()}
    runs = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else {}
    for name in arguments.cases or DEFAULT[which]:
        folder = arguments.runs / f"{which}-{name.replace(', ', '-').replace(' ', '-')}"
        runs[name] = outcome(measure(scenario, changes, CASES[name], folder))
        print(name, json.dumps(runs[name]), flush=True)
        told = {"scenario": scenario, "changes": _public(changes), "machine": machine, "runs": runs}
        path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _public(changes: Sequence[str]) -> list[str]:
    """Return the changes without the folders of this machine."""
    return [change for change in changes if not change.startswith(("data.root", "backbone"))]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=("digits", "cifar100"), default="digits")
    parser.add_argument("--cases", nargs="+", choices=CASES)
    parser.add_argument("--core", type=Path, help="CIFAR-100 as .npz")
    parser.add_argument("--backbone", type=Path, help="MobileNetV2 at 112 pixels as .onnx")
    parser.add_argument("--runs", type=Path, default=Path(tempfile.gettempdir()) / "baselines")
    arguments = parser.parse_args()
    if arguments.set == "cifar100" and not (arguments.core and arguments.backbone):
        parser.error("--set cifar100 needs --core and --backbone")
    return arguments


if __name__ == "__main__":
    main()
