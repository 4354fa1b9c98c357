"""How often equation (12) of LGA decides how long the noise of (11) is, by three ways to read it.

    python -m benchmarks.papers.lga_tables.omega  # `digits-lga`, three seeds: minutes

Fleets learn as the scenario says; of each class that the proxy draws noise around, omega, the
class's spread and the features' width are noted, and the draws are made anew by each way:

    whole     noise of variance omega, the default before
    share     noise of variance xi omega, the default
    printed   noise of deviation omega sigma_i, sigma_i^2 the spread that the device sent

A draw is omega's when one of ten meets the bound xi sum_i sigma_i^2; else it is cut to that bound,
and (12) says nothing. The shares go to benchmarks/results/lga_omega.json, seed by seed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from math import sqrt
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from rich.console import Console

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from fleetledger.methods.lga import proxy
from fleetledger.methods.lga.scoring import AugmentationSettings, Floats, augmented, bounded_noise
from fleetledger.simulator.run.runs import run_scenario
from fleetledger.simulator.scenario.loading import load_scenario

RESULTS = RESULTS_FOLDER / "lga_omega.json"
_DRAWS = 20
"""Of each class and model."""


@dataclass(frozen=True)
class Drawn:
    """Around what the proxy drew noise."""

    omega: float
    spread: float
    """Tr(Delta) / d of the class."""
    width: int


def deviation(way: str, seen: Drawn, xi: float) -> float:
    """Return the standard deviation of noise in each direction, before it is bounded."""
    ways = {
        "whole": sqrt(seen.omega),
        "share": sqrt(xi * seen.omega),
        "printed": seen.omega * sqrt(seen.spread),
    }
    return ways[way]


def shares(every: list[Drawn], xi: float) -> dict[str, float]:
    """Return by way which share of the draws omega decides, percent."""
    found: dict[str, float] = {}
    for way in ("whole", "share", "printed"):
        kept = [
            bounded_noise(
                np.full(seen.width, deviation(way, seen, xi)),
                xi * seen.width * seen.spread,
                _DRAWS,
                b"%d" % number,
            )[1].mean()
            for number, seen in enumerate(every)
        ]
        found[way] = round(100 * float(np.mean(kept)), 1)
    return found


@contextmanager
def noted() -> Iterator[list[Drawn]]:
    """Note what the proxies of this process draw noise around."""
    every: list[Drawn] = []

    def noting(
        features: Floats,
        variances: Floats,
        omega: float,
        settings: AugmentationSettings,
        seed: bytes,
    ) -> Floats:
        every.append(Drawn(omega, float(variances.mean()), features.shape[1]))
        return augmented(features, variances, omega, settings, seed)

    with patch.object(proxy, "augmented", noting):
        yield every


def measured(scenario: str, seed: int, changes: list[str]) -> dict[str, Any]:
    """Run a fleet and return shares of draws, and how far spreads are from omega."""
    told = load_scenario(scenario, [f"seeds=[{seed}]", *changes])
    with tempfile.TemporaryDirectory() as scratch, noted() as every:
        metrics = run_scenario(told, Path(scratch, "run"), Console(file=StringIO())).first
    ratios = np.array([seen.spread / seen.omega for seen in every if seen.omega])
    return {
        "draws_decided_percent": shares(every, AugmentationSettings().xi),
        "classes_and_models": len(every),
        "width": every[0].width,
        "omega": [round(float(value), 4) for value in _ends([seen.omega for seen in every])],
        "spread_over_omega": [round(float(value), 3) for value in _ends(ratios)],
        "accuracy": [round(100 * stage.accuracy, 2) for stage in metrics.stages],
    }


def _ends(values: Any) -> Any:  # noqa: ANN401 - numbers of any kind
    """Return the least, the median and the largest."""
    return np.quantile(values, [0, 0.5, 1])


def main() -> None:
    """Measure and store, seed by seed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scenario", default="digits-lga")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=VALUE", dest="changes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for seed in arguments.seeds:
        found = measured(arguments.scenario, seed, arguments.changes)
        print(seed, json.dumps(found), flush=True)
        known = json.loads(RESULTS.read_text("utf-8"))["runs"] if RESULTS.exists() else {}
        name = " ".join([arguments.scenario, *arguments.changes])
        known.setdefault(name, {})[str(seed)] = found
        facts = {"claim": "lga_omega", "machine": describe_machine("numpy", "torch"), "runs": known}
        RESULTS.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
