"""Count kernels, copies and waits of local training and of rounds, on a machine without a GPU.

    python -m benchmarks.speed.kernel_counts.run  # writes benchmarks/results/kernel_counts.*
    # only says what has changed, and fails then
    python -m benchmarks.speed.kernel_counts.run --check

Counts are the same on every machine; another torch may carry a call out in other parts. What they
are and what they leave out: docs/kernel-budgets.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks import RESULTS_FOLDER
from benchmarks.speed.kernel_counts.accelerator import DEVICE, counted
from benchmarks.speed.kernel_counts.counting import costs_of
from benchmarks.speed.kernel_counts.round_paths import RoundPath, round_paths
from benchmarks.speed.kernel_counts.training_paths import TrainingPath, training_paths
from fleetledger.learning.training.settings import TrainingEngineSettings

RESULTS = RESULTS_FOLDER / "kernel_counts.json"

Counts = dict[str, Any]
_RULE = "| --- | ---: | ---: | ---: |"


def count_training(path: TrainingPath) -> Counts:
    """Return the counts of a training: of a step, of an epoch beside its steps, and once."""
    costs = costs_of(path.run(DEVICE))
    return {term: _there(totals) for term, totals in asdict(costs).items()}


def count_round(path: RoundPath) -> Counts:
    """Return the counts of a round, and who had the processor compute convolutions."""
    run = path()
    seen = counted(lambda: run(TrainingEngineSettings(device=DEVICE)))
    found: Counts = _there(seen.totals())
    if seen.host_convolutions:
        found["convolutions_for"] = dict(sorted(seen.host_convolutions.items()))
    return found


def count_all() -> Counts:
    """Return the counts of all paths."""
    return {
        "command": "python -m benchmarks.speed.kernel_counts.run",
        "torch": torch.__version__.partition("+")[0],
        "training": {name: count_training(path) for name, path in training_paths().items()},
        "rounds": {name: count_round(path) for name, path in round_paths().items()},
    }


def differences(
    found: Mapping[str, Any], written: Mapping[str, Any], at: str = ""
) -> Iterator[str]:
    """Yield a line for each count that is another than it was, or is new, or is gone."""
    for name in sorted({*found, *written}):
        now, before = found.get(name, 0), written.get(name, 0)
        if isinstance(now, Mapping) or isinstance(before, Mapping):
            yield from differences(now or {}, before or {}, f"{at}{name} / ")
        elif now != before:
            yield f"{at}{name}: {before} before, {now} now"


def table(found: Mapping[str, Any]) -> str:
    """Return the counts as two tables in Markdown."""
    lines = ["| training | kernels a step | copies and waits a step | copies an epoch |", _RULE]
    for name, path in found["training"].items():
        step, epoch = path["step"], path["epoch"]
        stops = f"{step.get('to_device', 0)}, {step.get('waits', 0)}"
        lines.append(f"| {name} | {step['kernels']} | {stops} | {epoch.get('to_device', 0)} |")
    lines += ["", "| round | kernels | convolutions on the processor | copies there, back |", _RULE]
    for name, round_ in found["rounds"].items():
        kernels, there, back = (round_.get(kind, 0) for kind in ("kernels", "to_device", "to_host"))
        here = round_.get("host_convolutions", 0)
        lines.append(f"| {name} | {kernels} | {here} | {there}, {back} |")
    return "\n".join(lines)


def _there(totals: Mapping[str, int]) -> Counts:
    return {kind: count for kind, count in totals.items() if count}


def main() -> None:
    """Count, print, and write or compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the file, write nothing")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    found = count_all()
    if arguments.check:
        changed = list(differences(found, json.loads(arguments.out.read_text(encoding="utf-8"))))
        print("\n".join(changed) or "as written down")
        sys.exit(1 if changed else 0)
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    arguments.out.with_suffix(".md").write_text(table(found) + "\n", encoding="utf-8")
    print(table(found))


if __name__ == "__main__":
    main()
