"""Where FedHAF's second stage begins to matter: what moves its module, and how far.

    python -m benchmarks.papers.fedhaf_tables.second_stage  # digits, three seeds: minutes
    python -m benchmarks.papers.fedhaf_tables.second_stage --cases left-out,default --seeds 1

`digits-fedhaf` with four rounds a task instead of ten: five devices, the 64 pixels as features,
five tasks of two digits. Without a second stage the module stays as the first task left it. With it
L_FB alone moves the module, and L_FD holds it; in one loop labels move it too, and L_FD has
something to hold. Each case is one scenario with other settings. All go to
benchmarks/results/fedhaf_second_stage.json, and the table beside it is made anew; `--runs` keeps
the runs.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks import RESULTS_FOLDER
from benchmarks.arguments import names_among
from benchmarks.machine import describe_machine
from benchmarks.papers.fedhaf_tables.measuring import measured
from benchmarks.papers.footing.markdown import line, mean
from benchmarks.run_folders import run_case
from fleetledger.simulator.metrics.over_seeds import paired_difference

RESULTS = RESULTS_FOLDER / "fedhaf_second_stage.json"
SCENARIO = "digits-fedhaf"
_FIELDS = ("rounds.per_stage=4", "evaluation.every_rounds=4")
Run = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """Settings of the method, and the case that it is compared with seed by seed."""

    title: str
    beside: str | None
    settings: Mapping[str, Any] = field(default_factory=dict)


_NOTHING = {"feature_distance": 0.0, "feature_balance": 0.0}
_OWN = {"ce_scope": "own-task", "ce_rows": "all"}
_LABELS = {"stages": "one", "ce_scope": "seen", "ce_rows": "all", "distillation": 0.0}
_LOOP = {**_LABELS, "feature_balance": 0.0}
CASES: Mapping[str, Case] = {
    "left-out": Case("no second stage", None, _NOTHING),
    "default": Case("default: rate 0.001, 2 epochs, l_FB = 1", "left-out"),
    "default-free": Case("default, l_FD = 0", "default", {"feature_distance": 0.0}),
    "rate-5": Case("rate 0.005", "left-out", {"adapter_rate": 0.005}),
    "rate-10": Case("rate 0.01", "left-out", {"adapter_rate": 0.01}),
    "rate-10-free": Case(
        "rate 0.01, l_FD = 0", "rate-10", {"adapter_rate": 0.01, "feature_distance": 0.0}
    ),
    "rate-10-long": Case(
        "rate 0.01, 10 epochs", "left-out", {"adapter_rate": 0.01, "adapter_epochs": 10}
    ),
    "rate-20-long": Case(
        "rate 0.02, 10 epochs", "left-out", {"adapter_rate": 0.02, "adapter_epochs": 10}
    ),
    "free": Case(
        "rate 0.01, 10 epochs, l_FD = 0",
        "left-out",
        {"adapter_rate": 0.01, "adapter_epochs": 10, "feature_distance": 0.0},
    ),
    "balance-10": Case(
        "rate 0.01, 10 epochs, l_FB = 10",
        "left-out",
        {"adapter_rate": 0.01, "adapter_epochs": 10, "feature_balance": 10.0},
    ),
    "own-task": Case("default, exemplars in L_CE within their own task", "default", _OWN),
    "own-task-left-out": Case("the same without the second stage", "own-task", _OWN | _NOTHING),
    "loop": Case("one loop by labels of all, nothing held", None, _LOOP | _NOTHING),
    "loop-held": Case("the same, l_FD = 2", "loop", _LOOP),
    "loop-held-10": Case("the same, l_FD = 10", "loop", _LOOP | {"feature_distance": 10.0}),
}
"""By name, in the order of the table."""


def main() -> None:
    """Measure, print and store, run by run: one seed of all before the next."""
    arguments = _arguments()
    for seed in arguments.seeds:
        for name in arguments.cases:
            folder = arguments.runs / f"{name}-{seed}"
            folder.parent.mkdir(parents=True, exist_ok=True)
            told = {f"method.settings.{key}": value for key, value in CASES[name].settings.items()}
            changes = [
                f"seeds=[{seed}]",
                *_FIELDS,
                *(f"{key}={value}" for key, value in told.items()),
            ]
            found = measured(run_case(SCENARIO, [*changes, *arguments.settings], folder), folder)
            print(name, json.dumps(found), flush=True)
            if not arguments.settings:
                _store(name, seed, found)


def _store(name: str, seed: int, found: Mapping[str, Any]) -> None:
    kept = json.loads(RESULTS.read_text("utf-8"))["runs"] if RESULTS.exists() else {}
    kept.setdefault(name, {})[str(seed)] = found
    result = {"claim": "fedhaf_second_stage", "machine": describe_machine("torch"), "runs": kept}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    RESULTS.with_suffix(".md").write_text("\n".join(table(result)) + "\n", encoding="utf-8")


def table(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the file beside the results."""
    told = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    yield "# FedHAF's second stage\n"
    yield (
        "Written by `python -m benchmarks.papers.fedhaf_tables.second_stage`, scenario "
        "`digits-fedhaf`; "
        "[benchmarks/papers/fedhaf_tables](../papers/fedhaf_tables/README.md)\nsays what was "
        "asked and "
        "what the "
        "figures say. Percent and points: the mean over seeds and, after ±, half of the 95 % "
        "interval of\nStudent's t. Beside: the average minus that of another case, seed by seed, "
        "with its interval.\n"
    )
    yield f"Machine: {told}.\n"
    yield line(["case", "seeds", "average", "last", "forgetting", "beside", "of case"])
    yield line(["---"] * 7)
    for name, case in CASES.items():
        runs = result["runs"].get(name)
        if runs:
            every = list(runs.values())
            measures = [mean([run[key] for run in every]) for key in ("average", "last")]
            forgetting = mean([run["forgetting"] for run in every])
            other = {} if case.beside is None else result["runs"].get(case.beside, {})
            beside = difference(other, runs)
            against = CASES[case.beside].title if case.beside and beside else ""
            seeds = ", ".join(sorted(runs))
            yield line([case.title, seeds, *measures, forgetting, beside, against])


def difference(beside: Mapping[str, Run], runs: Mapping[str, Run]) -> str:
    """Return by how much the average differs seed by seed, with its interval."""
    found = paired_difference(
        {int(seed): run["average"] for seed, run in beside.items()},
        {int(seed): run["average"] for seed, run in runs.items()},
    )
    if found is None:
        return ""
    ends = "" if found.low is None else f" ({found.low:+.2f}, {found.high:+.2f})"
    return f"{found.mean:+.2f}{ends}"


def _arguments() -> argparse.Namespace:
    runs = Path(tempfile.gettempdir()) / "fedhaf_second_stage"
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=names_among(CASES), default=list(CASES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--runs", type=Path, default=runs)
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=VALUE", dest="settings")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    return arguments


if __name__ == "__main__":
    main()
