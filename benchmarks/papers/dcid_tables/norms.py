"""Is DCID's gain repaired batch normalisation? Means, and DCID, with statistics that fit or not.

    python -m benchmarks.papers.dcid_tables.norms --core CORE.npz
    python -m benchmarks.papers.dcid_tables.norms --core CORE.npz --cases mean-averaged,dcid-train

CORE as for `benchmarks.papers.dcid_tables.run`. Each case is run with three rates and a seed that
no figure is of, then with the best of them and three other seeds: first all rates, then seed after
seed, so that what is stopped early has the same seeds for all. What is done is not done again; run
folders stay in `--runs`. After every run benchmarks/results/dcid_norms.json and the tables are
written anew.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import RESULTS_FOLDER
from benchmarks.arguments import names_among
from benchmarks.machine import describe_machine
from benchmarks.papers.dcid_tables.norm_cases import (
    BESIDE,
    CASES,
    ICARL,
    SCENARIO,
    SEEDS,
    TUNED_ON,
    chosen,
    key_of,
)
from benchmarks.papers.dcid_tables.norm_tables import tables
from benchmarks.run_folders import processor_seconds, run_case
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.seed_metrics import StageMetrics

RESULTS = RESULTS_FOLDER / "dcid_norms.json"

Runs = dict[str, dict[str, Any]]


def main() -> None:
    """Measure, print and store, run by run."""
    arguments = _arguments()
    torch.set_num_threads(1)
    kept: Runs = json.loads(RESULTS.read_text("utf-8"))["runs"] if RESULTS.exists() else {}
    for group in (ICARL, BESIDE):
        names = [name for name in arguments.cases if name in group]
        for name, rate, seed in _due(names, kept):
            key = key_of(name, rate, seed)
            if key in kept:
                continue
            rates = _rates(kept, name, rate)
            folder = arguments.runs / key
            folder.parent.mkdir(parents=True, exist_ok=True)
            changes = CASES[name].changes(seed, rates, arguments.core)
            results = run_case(SCENARIO, changes, folder)
            kept[key] = {"case": name, "rates": rates, **_measured(results, folder)}
            print(key, json.dumps(kept[key]), flush=True)
            _store(kept)


def _due(names: Sequence[str], kept: Runs) -> Iterator[tuple[str, float, int]]:
    """Yield runs in their order; each best rate is looked up when it is its turn."""
    for name in names:
        rates = CASES[name].rates
        for rate in rates if len(rates) > 1 else ():
            yield name, rate, TUNED_ON
    for seed in SEEDS:
        for name in names:
            best = chosen(kept, name)
            assert best is not None, "all rates were tried above"
            yield name, best, seed


def _rates(kept: Runs, name: str, rate: float) -> dict[str, float]:
    case = CASES[name]
    rates = {case.tuned: rate}
    if case.rate_of is not None:
        local = chosen(kept, case.rate_of)
        if local is None:
            raise SystemExit(f"cases: {name} takes the rate of {case.rate_of}; run that, too")
        rates["rate"] = local
    return rates


def _measured(results: RunResults, folder: Path) -> dict[str, Any]:
    """Return percent: of heads and of what models answer by, sessions after the first, rounds."""
    stages = results.first.stages
    later = stages[1:]
    heads = [100 * _last(stage) for stage in later]
    return {
        "base": _percent(stages[0].accuracy),
        "head": round(float(np.mean(heads)), 3),
        "head_final": round(heads[-1], 2),
        "model": round(100 * float(np.mean([stage.accuracy for stage in later])), 3),
        "model_final": _percent(later[-1].accuracy),
        "rounds": [
            {
                "session": stage.stage,
                "round": one.number,
                "ensemble": _percent(one.ensemble_accuracy),
                "mean": _percent(one.mean_accuracy),
                "general": _percent(one.accuracy),
                "drift": one.client_drift,
            }
            for stage in later
            for one in stage.rounds
        ],
        "processor_seconds": processor_seconds(folder),
    }


def _last(stage: StageMetrics) -> float:
    accuracy = stage.rounds[-1].accuracy
    assert accuracy is not None, "every round is measured"
    return accuracy


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 2)


def _store(kept: Runs) -> None:
    machine = {**describe_machine("torch"), "threads": torch.get_num_threads()}
    best = {name: chosen(kept, name) for name in CASES}
    result = {"claim": "dcid_norms", "machine": machine, "chosen": best, "runs": kept}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    RESULTS.with_suffix(".md").write_text(tables(result), encoding="utf-8")


def _arguments() -> argparse.Namespace:
    core = os.environ.get("FLEETLEDGER_CIFAR_CORE")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--core", type=_path, default=core and _path(core))
    parser.add_argument("--cases", type=names_among(CASES), default=list(CASES))
    parser.add_argument("--runs", type=_path, default=Path(tempfile.gettempdir(), "dcid_norms"))
    return parser.parse_args()


def _path(text: str) -> Path:
    return Path(text).expanduser().absolute()


if __name__ == "__main__":
    main()
