"""The tables of LGA: both modes, every ablation, and federated averaging, on one scenario.

    python -m benchmarks.papers.lga_tables.run  # digits; some ten minutes on two cores
    python -m benchmarks.papers.lga_tables.run --modes paper --presets lga,fedavg
    python -m benchmarks.papers.lga_tables.run --scenario cifar100-lga-small --modes paper \
        --root FILE
    python -m benchmarks.papers.lga_tables.run --modes paper --presets lga,fedavg-exemplars \
        --seeds 2 3

Cases are merged into the scenario's file in benchmarks/results, and the table beside it is written
anew. The long table is of seed 1; cases with further seeds stand in one of their own.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import torch
from rich.console import Console

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.papers.lga_tables.ledger import bodies_of, choices
from benchmarks.papers.lga_tables.tables import Case, case_of, choice_table, seeds_table, table
from fleetledger.methods.lga.settings import MODES, PRESETS
from fleetledger.simulator.run.folder import RunFolder
from fleetledger.simulator.run.runs import run_scenario
from fleetledger.simulator.scenario.loading import load_scenario

RESULTS = RESULTS_FOLDER
PRINTED_PERCENT = 0.364
"""Gradients beside models, as printed in the paper for CIFAR-100 and ResNet-18."""
_WITHOUT_MEMORY = "fedavg"


@dataclass(frozen=True)
class Subject:
    """A scenario that is measured, and where its cases go."""

    title: str
    file: str


SUBJECTS = {
    "digits-lga": Subject("LGA on digits", "lga_tables"),
    "cifar100-lga-small": Subject("LGA on a part of CIFAR-100", "lga_cifar"),
}


def main() -> None:
    """Measure and store, case by case."""
    arguments = _arguments()
    for seed in arguments.seeds:
        for mode in arguments.modes:
            for preset in arguments.presets:
                case = [f"seeds=[{seed}]", *settings(mode, preset)]
                found = measured(arguments.scenario, case, arguments.root)
                _store(arguments.scenario, f"{mode}, {preset}", seed, found)


def settings(mode: str, preset: str) -> list[str]:
    """Return what a case sets in its scenario; `fedavg` keeps no exemplars."""
    changes = [f"method.settings.mode={mode}", f"method.settings.preset={preset}"]
    if preset == _WITHOUT_MEMORY:
        changes += ["method.settings.memory_per_class=0", "method.settings.memory=0"]
    return changes


def measured(name: str, changes: list[str], root: Path | None) -> Case:
    """Run a case and return its numbers: percent, points, bytes and seconds."""
    if root is not None:
        changes = [*changes, f"data.root={root}"]
    scenario, began = load_scenario(name, changes), time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "run")
        metrics = run_scenario(scenario, folder, Console(file=StringIO())).first
        seconds = time.monotonic() - began
        home = RunFolder(folder).seed(scenario.seeds[0]).root / "coordinator"
        chosen = choices(bodies_of(home))
    return {**case_of(metrics), "choices": chosen, "seconds": round(seconds, 1)}


def _store(scenario: str, name: str, seed: int, found: Case) -> None:
    subject = SUBJECTS[scenario]
    path = RESULTS / f"{subject.file}.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"cases": {}}
    cases, further = known["cases"], known.get("further_seeds", {})
    if seed == 1:
        cases[name] = found
    else:
        further.setdefault(name, {})[str(seed)] = found
    facts = {
        "claim": subject.file,
        "scenario": scenario,
        "machine": describe_machine("numpy", "torch"),
        "printed_gradient_percent": PRINTED_PERCENT,
        "cases": cases,
        "further_seeds": further,
    }
    path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    text = (
        f"# {subject.title}\n\n"
        f"Scenario `{scenario}`, seed 1. Tasks count that begin on a device after the fleet's "
        "first. Bytes that the proxy\nreceived from devices stand beside the weights that these "
        f"sent; the paper prints {PRINTED_PERCENT} %, with ResNet-18\non CIFAR-100, and networks "
        f"are small here.\n\n{table(cases)}\n\n"
        "What devices that enter the next task distil from: stage and round of the model that the "
        "proxy chose, and the\nlowest and highest score of the stage's rounds.\n\n"
        f"{choice_table(cases)}\n"
        f"{seeds_table(cases, further)}"
    )
    path.with_suffix(".md").write_text(text, encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scenario", choices=tuple(SUBJECTS), default=next(iter(SUBJECTS)))
    parser.add_argument("--root", type=Path, help="the data set, where the scenario needs one")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--modes", type=lambda text: text.split(","), default=list(MODES))
    parser.add_argument("--presets", type=lambda text: text.split(","), default=list(PRESETS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    return arguments


if __name__ == "__main__":
    main()
