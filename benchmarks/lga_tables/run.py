"""The table of LGA on digits: both modes, every ablation, and federated averaging.

    python -m benchmarks.lga_tables.run                      # all; some ten minutes on two cores
    python -m benchmarks.lga_tables.run --modes paper --presets lga,fedavg

Cases are merged into benchmarks/results/lga_tables.json, and the table beside it is written anew.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from benchmarks.lga_tables.ledger import entries_of, noticed, traffic
from benchmarks.machine import describe_machine
from methods.lga.assignment import LgaAssignment, read_assignment
from methods.lga.gradient_sets import GradientSet, encode_gradients
from methods.lga.settings import MODES, PRESETS
from simulator.run.folder import RunFolder
from simulator.run.preparing import Seed
from simulator.run.progress import Screen
from simulator.run.running import run_scenario
from simulator.scenario.loading import load_scenario

SCENARIO = "digits-lga"
RESULTS = Path(__file__).resolve().parents[1] / "results" / "lga_tables.json"
PRINTED_PERCENT = 0.364
"""Gradients beside models, as printed in the paper for CIFAR-100 and ResNet-18."""
_WITHOUT_MEMORY = "fedavg"


def main() -> None:
    """Measure and store, case by case."""
    arguments = _arguments()
    for mode in arguments.modes:
        for preset in arguments.presets:
            _store(f"{mode}, {preset}", measured(mode, preset))


def measured(mode: str, preset: str) -> dict[str, Any]:
    """Run a case and return its numbers: percent, points, bytes and seconds."""
    changes = [f"method.settings.mode={mode}", f"method.settings.preset={preset}"]
    if preset == _WITHOUT_MEMORY:
        changes.append("method.settings.memory_per_class=0")
    scenario, console = load_scenario(SCENARIO, changes), Console(file=StringIO())
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "run")
        metrics = run_scenario(scenario, folder, console).first
        seconds = time.monotonic() - began
        told = entries_of(RunFolder(folder).seed(scenario.seeds[0]).root / "coordinator")
    plan = Seed.load(scenario, scenario.seeds[0]).prepare(Screen(console, 1)).plan
    assignment = read_assignment(
        {"settings": scenario.method.settings, "input_shape": (1, 8, 8)},
    )
    accuracy = [round(100 * stage.accuracy, 2) for stage in metrics.stages]
    return {
        "accuracy": accuracy,
        "average": round(sum(accuracy) / len(accuracy), 2),
        "final": accuracy[-1],
        "forgetting": round(100 * metrics.headline["forgetting"], 2),
        "noticed": noticed(told, plan),
        **traffic(told, _set_bytes(assignment)),
        "seconds": round(seconds, 1),
    }


def table(cases: dict[str, Any]) -> str:
    """Return the cases as Markdown."""
    head = ("case", "final, %", "average, %", "forgetting, points", "tasks noticed at once")
    more = ("late", "missed", "false alarms", "gradients beside models, %", "seconds")
    lines = [_row(*head, *more), _row(*["---"] * (len(head) + len(more)))]
    for name in sorted(cases, key=_place):
        case, seen = cases[name], cases[name]["noticed"]
        at_once = f"{seen['at_once']} of {seen['began']}"
        share = case["gradient_percent"] or "-"
        first = (name, case["final"], case["average"], case["forgetting"], at_once)
        last = (seen["late"], seen["missed"], seen["false_alarms"], share, case["seconds"])
        lines.append(_row(*first, *last))
    return "\n".join(lines)


def _place(name: str) -> tuple[int, int]:
    mode, _, preset = name.partition(", ")
    return list(MODES).index(mode), list(PRESETS).index(preset)


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _set_bytes(assignment: LgaAssignment) -> int:
    """Return what the gradients of one class take."""
    chance = torch.Generator().manual_seed(0)
    picture = torch.rand(1, *assignment.input_shape, generator=chance)
    found = assignment.encoding.gradients(picture, torch.tensor([0]))
    one = GradientSet({name: tensor[0] for name, tensor in found.items()}, 0.01)
    return len(encode_gradients([one]))


def _store(name: str, found: dict[str, Any]) -> None:
    known = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"cases": {}}
    cases = known["cases"] | {name: found}
    facts = {
        "claim": "lga_tables",
        "machine": describe_machine("numpy", "torch"),
        "printed_gradient_percent": PRINTED_PERCENT,
        "cases": cases,
    }
    RESULTS.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    text = (
        "# LGA on digits\n\n"
        "Scenario `digits-lga`, seed 1. Tasks count that begin on a device after the fleet's "
        "first. Gradients\nthat the proxy used stand beside the models that devices sent; the "
        f"paper prints {PRINTED_PERCENT} %, with\nResNet-18 on CIFAR-100, and the network is small "
        f"here.\n\n{table(cases)}\n"
    )
    RESULTS.with_suffix(".md").write_text(text, encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--modes", type=lambda text: text.split(","), default=list(MODES))
    parser.add_argument("--presets", type=lambda text: text.split(","), default=list(PRESETS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    return arguments


if __name__ == "__main__":
    main()
