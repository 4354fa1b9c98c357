"""FedHAF and its rivals on CIFAR-100, each at its own best of three rates, on three seeds.

    # an hour
    python -m benchmarks.papers.fedhaf_tables.own_rates --core CORE.npz --backbone NET.onnx
    python -m benchmarks.papers.fedhaf_tables.own_rates --methods full,own-task --seeds 1
    python -m benchmarks.papers.fedhaf_tables.own_rates --tables        # writes the table anew

Files as for `benchmarks.papers.fedhaf_tables.run`. The first five of ten tasks; everything else as
there. A rate is chosen by 50 training images of each class, held out, on the first two tasks of
seed 4, which is none of the table's. What only changes the second stage, or leaves it out, trains
at the rate of the method that it is a form of. Every run is stored when it has ended, in
benchmarks/results/fedhaf_own_rates.json, and is not run again; the table beside it is made anew.
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
from benchmarks.papers.fedhaf_tables.cases import CASES, SCENARIO, Material
from benchmarks.papers.fedhaf_tables.measuring import measured
from benchmarks.papers.fedhaf_tables.run import machine
from benchmarks.papers.fedhaf_tables.second_stage import Run, difference
from benchmarks.papers.footing.held_out import held_out_file
from benchmarks.papers.footing.markdown import line, mean
from benchmarks.run_folders import run_case

RESULTS = RESULTS_FOLDER / "fedhaf_own_rates.json"
RATES = (0.01, 0.02, 0.05)
SEEDS = (1, 2, 3)
_TUNING_SEED, _TUNING_TASKS, _TASKS, _PER_TASK, _ROUNDS = 4, 2, 5, 10, 10
_RIVAL = "fedavg-exemplars"


@dataclass(frozen=True)
class Method:
    """A case of the tables, whose rate it takes, and which method stands beside it."""

    case: str
    beside: str | None = _RIVAL
    settings: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    """Where it is no case as it stands there."""
    rate_of: str = ""
    """The method that chose its rate; itself, where it is empty."""

    @property
    def told(self) -> str:
        """What the table calls it."""
        return self.title or CASES[self.case].title


def _form(title: str, **settings: Any) -> Method:  # noqa: ANN401
    """Return FedHAF with another second stage."""
    return Method("full", "full", settings, title, rate_of="full")


_NOTHING = {"feature_distance": 0.0, "feature_balance": 0.0}
METHODS: Mapping[str, Method] = {
    _RIVAL: Method(_RIVAL, None),
    "full": Method("full"),
    "own-task": Method("own-task", "full"),
    "calibrated": Method("calibrated"),
    "left-out": _form("FedHAF without its second stage", **_NOTHING),
    "rate-10": _form("FedHAF, second stage at a rate of 0.01", adapter_rate=0.01),
    "rate-50": _form("FedHAF, second stage at a rate of 0.05", adapter_rate=0.05),
    "rate-50-free": Method(
        "full",
        "rate-50",
        {"adapter_rate": 0.05, "feature_distance": 0.0},
        "the same, l_FD = 0",
        rate_of="full",
    ),
}
"""By name, in the order of the table."""


@dataclass(frozen=True)
class Place:
    """Where files and run folders are."""

    core: Path
    held_out: Path
    backbone: Path
    runs: Path

    def changes(self, name: str, rate: float, seed: int, *, tuning: bool) -> list[str]:
        """Return what a run changes in the scenario."""
        method, tasks = METHODS[name], _TUNING_TASKS if tuning else _TASKS
        case, settings = CASES[method.case], {"head_rate": rate, **method.settings}
        return [
            *case.changes(),
            *(f"method.settings.{key}={value}" for key, value in settings.items()),
            *Material(self.held_out if tuning else self.core, self.backbone).changes(),
            f"seeds=[{seed}]",
            f"stages.classes={_PER_TASK * tasks}",
            f"stages.count={tasks}",
            f"evaluation.every_rounds={_ROUNDS}",
        ]

    def run(self, name: str, rate: float, seed: int, *, tuning: bool) -> Run:
        """Bring a run to its end and return its numbers."""
        folder = self.runs / f"{name}-{rate:g}-{seed}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        changes = self.changes(name, rate, seed, tuning=tuning)
        return {"rate": rate, **measured(run_case(SCENARIO, changes, folder), folder)}


def main() -> None:
    """Measure and store, run by run: rates first, then one seed of all before the next."""
    arguments = _arguments()
    if arguments.tables:
        _write(_read())
        return
    torch.set_num_threads(1)
    place = _place(arguments)
    for name in dict.fromkeys(METHODS[name].rate_of or name for name in arguments.methods):
        for rate in RATES:
            if f"{rate:g}" not in _read()["rates"].get(name, {}):
                found = place.run(name, rate, _TUNING_SEED, tuning=True)
                _store("rates", name, f"{rate:g}", found)
    for seed in arguments.seeds:
        for name in arguments.methods:
            if str(seed) not in _read()["runs"].get(name, {}):
                rate = best_rate(_read(), name)
                _store("runs", name, str(seed), place.run(name, rate, seed, tuning=False))


def best_rate(results: Mapping[str, Any], name: str) -> float:
    """Return the rate with the best average on the images held out."""
    tried: Mapping[str, Run] = results["rates"][METHODS[name].rate_of or name]
    return float(max(tried, key=lambda rate: float(tried[rate]["average"])))


def _place(arguments: argparse.Namespace) -> Place:
    runs: Path = arguments.runs
    kept = held_out_file(arguments.core, runs / "held_out.npz")
    return Place(arguments.core, kept, arguments.backbone, runs)


def _read() -> dict[str, Any]:
    if RESULTS.exists():
        found: dict[str, Any] = json.loads(RESULTS.read_text("utf-8"))
        return found
    return {"claim": "fedhaf_own_rates", "machine": {}, "rates": {}, "runs": {}}


def _store(kind: str, name: str, key: str, found: Run) -> None:
    print(kind, name, key, json.dumps(found), flush=True)
    results = _read()
    results[kind].setdefault(name, {})[key] = found
    _write({**results, "machine": machine()})


def _write(results: Mapping[str, Any]) -> None:
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    RESULTS.with_suffix(".md").write_text("\n".join(table(results)) + "\n", encoding="utf-8")


def table(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the file beside the results."""
    told = ", ".join(f"{name} {value}" for name, value in results["machine"].items())
    yield "# FedHAF and its rivals, each at its own best of three rates\n"
    yield (
        "Written by `python -m benchmarks.papers.fedhaf_tables.own_rates`, CIFAR-100, five tasks "
        "of ten "
        "classes, Dirichlet "
        "1.0;\n[benchmarks/papers/fedhaf_tables](../papers/fedhaf_tables/README.md) "
        "says what "
        "was asked and what the figures say. Percent and points: the mean\nover seeds and, after "
        "±, half of the 95 % interval of Student's t. Beside: the average minus that of another "
        "method,\nseed by seed, with its interval.\n"
    )
    yield f"Machine: {told}.\n"
    heads = ("method", "rate", "seeds", "average", "last", "forgetting", "beside", "of method")
    yield line(heads)
    yield line(["---"] * len(heads))
    for name, method in METHODS.items():
        runs = results["runs"].get(name, {})
        if runs:
            yield line(_row(method, runs, results["runs"].get(method.beside, {})))
    yield "\n## How rates were chosen\n"
    yield "Average of two tasks on training images held out, in percent, by rate.\n"
    yield line(("method", *(f"{rate:g}" for rate in RATES)))
    yield line(["---"] * (1 + len(RATES)))
    for name, tried in results["rates"].items():
        averages = (f"{tried[key]['average']:.2f}" if key in tried else "" for key in _keys())
        yield line((METHODS[name].told, *averages))


def _keys() -> list[str]:
    return [f"{rate:g}" for rate in RATES]


def _row(method: Method, runs: Mapping[str, Run], other: Mapping[str, Run]) -> tuple[str, ...]:
    every = list(runs.values())
    beside = difference(other, runs)
    measures = (mean([run[key] for run in every]) for key in ("average", "last", "forgetting"))
    of = METHODS[method.beside].told if method.beside and beside else ""
    return (method.told, f"{every[0]['rate']:g}", ", ".join(sorted(runs)), *measures, beside, of)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--core", type=Path)
    parser.add_argument("--backbone", type=Path)
    parser.add_argument("--methods", type=names_among(METHODS), default=list(METHODS))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    runs = Path(tempfile.gettempdir()) / "fedhaf_own_rates"
    parser.add_argument("--runs", type=Path, default=runs)
    parser.add_argument("--tables", action="store_true", help="write the table anew, run nothing")
    arguments = parser.parse_args()
    if not arguments.tables and None in (arguments.core, arguments.backbone):
        parser.error("give --core and --backbone")
    return arguments


if __name__ == "__main__":
    main()
