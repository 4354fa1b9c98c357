"""The tables of LGA: both modes, every ablation, and federated averaging, on one scenario.

    python -m benchmarks.lga_tables.run                  # digits; some ten minutes on two cores
    python -m benchmarks.lga_tables.run --modes paper --presets lga,fedavg
    python -m benchmarks.lga_tables.run --scenario cifar100-lga-small --modes paper --root FILE

Cases are merged into the scenario's file in benchmarks/results, and the table beside it is written
anew.
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

from benchmarks.lga_tables.ledger import bodies_of, choices
from benchmarks.lga_tables.tables import Case, case_of, choice_table, table
from benchmarks.machine import describe_machine
from methods.lga.settings import MODES, PRESETS
from simulator.run.folder import RunFolder
from simulator.run.running import run_scenario
from simulator.scenario.loading import load_scenario

RESULTS = Path(__file__).resolve().parents[1] / "results"
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
    for mode in arguments.modes:
        for preset in arguments.presets:
            found = measured(arguments.scenario, mode, preset, arguments.root)
            _store(arguments.scenario, f"{mode}, {preset}", found)


def measured(name: str, mode: str, preset: str, root: Path | None) -> Case:
    """Run a case and return its numbers: percent, points, bytes and seconds."""
    changes = [f"method.settings.mode={mode}", f"method.settings.preset={preset}"]
    if preset == _WITHOUT_MEMORY:
        changes += ["method.settings.memory_per_class=0", "method.settings.memory=0"]
    if root is not None:
        changes.append(f"data.root={root}")
    scenario, began = load_scenario(name, changes), time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "run")
        metrics = run_scenario(scenario, folder, Console(file=StringIO())).first
        seconds = time.monotonic() - began
        home = RunFolder(folder).seed(scenario.seeds[0]).root / "coordinator"
        chosen = choices(bodies_of(home))
    return {**case_of(metrics), "choices": chosen, "seconds": round(seconds, 1)}


def _store(scenario: str, name: str, found: Case) -> None:
    subject = SUBJECTS[scenario]
    path = RESULTS / f"{subject.file}.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"cases": {}}
    cases = known["cases"] | {name: found}
    facts = {
        "claim": subject.file,
        "scenario": scenario,
        "machine": describe_machine("numpy", "torch"),
        "printed_gradient_percent": PRINTED_PERCENT,
        "cases": cases,
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
    )
    path.with_suffix(".md").write_text(text, encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scenario", choices=tuple(SUBJECTS), default=next(iter(SUBJECTS)))
    parser.add_argument("--root", type=Path, help="the data set, where the scenario needs one")
    parser.add_argument("--modes", type=lambda text: text.split(","), default=list(MODES))
    parser.add_argument("--presets", type=lambda text: text.split(","), default=list(PRESETS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    return arguments


if __name__ == "__main__":
    main()
