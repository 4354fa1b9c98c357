"""Accuracy of differentially private rounds against epsilon, beside pfl-research's mechanism.

    python -m benchmarks.papers.private_rounds.run --environments FOLDER

Runs the scenario `digits-private` with 1,000 and with fewer light devices, without privacy, clipped
alone, and at epsilon 8, 3 and 1 at the level of devices; then pfl-research's `SimulatedBackend`
with its central Gaussian mechanism and its own accountant on the same devices, images, training
and budget (`pfl_side.py`, in an environment of its own below --environments). A case that is
stored is not run again. Accuracies are in percent of the test images.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.speed.fleet_overhead.environments import python_of
from fleetledger.learning.privacy.accounting import Spending, multiplier_for
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.run.runs import run_scenario
from fleetledger.simulator.scenario.loading import load_scenario
from fleetledger.simulator.scenario.model import Scenario

SCENARIO = "digits-private"
RESULTS = RESULTS_FOLDER / "private_rounds.json"
ROUNDS, EPOCHS, BATCH, RATE, CLIP, DELTA = 10, 3, 8, 1.0, 3.0, 1e-5
EPSILONS = (8.0, 3.0, 1.0)
SIDES = ("fleetledger", "pfl")


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    devices: int
    clip: float | None
    """None for plain federated averaging."""
    epsilon: float | None
    """None for no noise."""

    @property
    def name(self) -> str:
        """Its name in the results."""
        if self.clip is None:
            how = "not private"
        else:
            how = "clipped" if self.epsilon is None else f"epsilon {self.epsilon:g}"
        return f"{self.devices} devices, {how}"

    @property
    def noise(self) -> float:
        """Our noise multiplier; 0 for none."""
        if self.epsilon is None:
            return 0.0
        return multiplier_for(self.epsilon, DELTA, Spending(1.0, ROUNDS))

    def scenario(self, seed: int) -> Scenario:
        """Return what the fleet runs."""
        fixed = {"network": "identity", "epochs": EPOCHS, "batch": BATCH, "rate": RATE}
        own: dict[str, Any] = {**fixed, "momentum": 0.0, "averaging": "plain"}
        if self.clip is not None:
            own["privacy"] = {"clip": self.clip, "noise": self.noise}
        if self.epsilon is not None:
            own["privacy"] |= {"epsilon": 1.0001 * self.epsilon, "delta": DELTA}
        content = load_scenario(SCENARIO).model_dump(mode="json")
        content["seeds"] = [seed]
        content["devices"]["count"] = self.devices
        content["rounds"]["per_stage"] = ROUNDS
        content["method"]["settings"] = own
        content["engine"]["training"] = "stack"
        content["evaluation"]["pooled_reference"] = False
        return Scenario.model_validate(content)


def cases(fleets: list[int]) -> Iterator[Case]:
    """Yield the lines of the table."""
    for devices in fleets:
        yield Case(devices, None, None)
        yield Case(devices, CLIP, None)
        for epsilon in EPSILONS:
            yield Case(devices, CLIP, epsilon)


def of_fleet(case: Case, seed: int) -> dict[str, Any]:
    """Return what the fleet comes to."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        results: RunResults = run_scenario(
            case.scenario(seed), Path(folder) / "run", Console(stderr=True, quiet=True)
        )
    accuracy = results.headline("final_accuracy")[seed]
    return {
        "accuracy": round(100 * accuracy, 2),
        "noise": round(case.noise, 4),
        "seconds": round(time.perf_counter() - began, 1),
    }


def of_pfl(case: Case, seed: int, python: Path) -> dict[str, Any]:
    """Return what pfl-research comes to on the same devices."""
    told = {
        **asdict(case),
        **{"seed": seed, "rounds": ROUNDS, "epochs": EPOCHS, "batch": BATCH, "rate": RATE},
        "delta": DELTA,
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "dealt.npz", **dealt(case.scenario(seed), seed))
        (folder / "told.json").write_text(json.dumps(told), encoding="utf-8")
        side = Path(__file__).with_name("pfl_side.py")
        command = [str(python), str(side), str(folder / "dealt.npz"), str(folder / "told.json")]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


class _Quiet:
    """A `Watch` that says nothing."""

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_: None


def dealt(scenario: Scenario, seed: int) -> dict[str, Any]:
    """Return images as rows of pixels, their labels, and the rows of each device."""
    prepared = PreparedSeed.load(scenario, seed).prepare(_Quiet())
    rows = [held.indices for held in prepared.plan.stages[0].devices.values()]
    split = prepared.split

    def pixels(images: Any) -> np.ndarray:  # noqa: ANN401 - of any data set
        every = np.stack([np.asarray(images.images[at]) for at in range(len(images.labels))])
        return every.reshape(len(every), -1).astype(np.float32) / 255

    return {
        "train": pixels(split.train),
        "train_labels": split.train.labels,
        "test": pixels(split.test),
        "test_labels": split.test.labels,
        "rows": np.concatenate(rows),
        "sizes": [len(one) for one in rows],
    }


def main() -> None:
    """Measure, store and print, case by case."""
    arguments = _arguments()
    python = python_of("pfl", arguments.environments) if "pfl" in arguments.sides else None
    stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    runs: dict[str, Any] = stored.get("runs", {})
    settings = {
        **{"rounds": ROUNDS, "epochs": EPOCHS, "batch": BATCH, "rate": RATE},
        **{"clip": CLIP, "delta": DELTA, "scenario": SCENARIO},
    }
    for seed in arguments.seeds:
        for case in cases(arguments.fleets):
            line = runs.setdefault(case.name, {})
            for side in arguments.sides:
                if str(seed) in line.get(side, {}) or (side == "pfl" and python is None):
                    continue
                made = of_fleet(case, seed) if side == "fleetledger" else None
                if made is None:
                    assert python is not None
                    made = of_pfl(case, seed, python)
                line.setdefault(side, {})[str(seed)] = made
                print(case.name, side, seed, made, flush=True)
                told = {"machine": describe_machine("numpy", "torch"), **settings, "runs": runs}
                RESULTS.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fleets", nargs="+", type=int, default=[1000, 300, 100])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--environments", type=Path, default=Path(tempfile.gettempdir()) / "peers")
    return parser.parse_args()


if __name__ == "__main__":
    main()
