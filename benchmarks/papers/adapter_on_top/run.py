"""Whether rounds of training on top of the exact head of STSA's preset `best` gain anything.

    FLEETLEDGER_DATA=FOLDER python -m benchmarks.papers.adapter_on_top.run [--scenario \
        cifar100-best]

The head is solved from the sums of all stages, as the fleet solves it. Then five devices, to whom
the scenario deals the images, train in rounds what begins as nothing: FedAvg of one local epoch,
SGD with momentum 0.9 in batches of 64, cross-entropy of scores at one scale.

    adapter   h + B relu(A h), of rank 64: features are adapted, the head stays (FedHAF's place)
    bypass    scores + B relu(A h), of rank 64
    head      the head's own rows

At round 0 all of them are the exact head. Accuracy is of the test images after the last round, so a
gate that looks at images which nobody trained on can do no better than the best of these rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.scenario_features import ScenarioFeatures
from fleetledger.learning.numerics.calibration import best_scale, summed_losses
from fleetledger.learning.numerics.ridge import solve_ridge
from fleetledger.methods.statistics.linear_head import whitened_weights
from fleetledger.methods.stsa.settings import StsaSettings

RESULTS = RESULTS_FOLDER / "adapter_on_top.json"
RATES = (1e-4, 3e-4, 1e-3)
SEEDS = (1, 2, 3)
ROUNDS, BATCH, RANK, MOMENTUM = 10, 64, 64, 0.9
_T95 = 4.303
"""Student's t for three seeds."""

Parts = dict[str, Tensor]
Scoring = Callable[[Mapping[str, Tensor], Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Material:
    """Features brought to one spread, and the exact head on them."""

    train: Tensor
    labels: Tensor
    test: Tensor
    test_labels: Tensor
    owners: Tensor
    weights: Tensor
    """(M, C)."""
    bias: Tensor
    scale: float
    """By which scores are multiplied: fitted on every tenth of the samples that are trained on."""

    @classmethod
    def of(cls, seen: ScenarioFeatures) -> Material:
        """Solve the head of all training samples."""
        h = seen.train.astype(np.float64)
        counts = np.bincount(seen.train_labels)
        sums = h.T @ np.eye(len(counts))[seen.train_labels]
        gram = h.T @ h
        settings = StsaSettings.model_validate(seen.scenario.method.settings)
        ridge = settings.ridge_for(gram, sums, counts)
        weights = whitened_weights(solve_ridge(gram, sums, ridge), sums)
        scale = best_scale(summed_losses(h[::10] @ weights, seen.train_labels[::10].tolist()))
        centre, spread = h.mean(axis=0), h.std(axis=0) + 1e-6

        def spread_out(features: Any) -> Tensor:  # noqa: ANN401 - an array
            return torch.from_numpy(((features - centre) / spread).astype(np.float32))

        return cls(
            spread_out(h),
            torch.from_numpy(seen.train_labels),
            spread_out(seen.test.astype(np.float64)),
            torch.from_numpy(seen.test_labels),
            torch.from_numpy(seen.owners),
            torch.from_numpy((weights * spread[:, np.newaxis]).astype(np.float32)),
            torch.from_numpy((centre @ weights).astype(np.float32)),
            scale,
        )

    def exact(self, features: Tensor) -> Tensor:
        """Return the exact head's scores."""
        return features @ self.weights + self.bias


def forms(of: Material, chance: torch.Generator) -> dict[str, tuple[Parts, Scoring]]:
    """Return what is trained at first, and how it scores, by name."""
    width, classes = of.weights.shape
    down = torch.randn(width, RANK, generator=chance) / sqrt(width)

    def adapted(parts: Mapping[str, Tensor], x: Tensor) -> Tensor:
        return of.exact(x + (x @ parts["down"]).relu() @ parts["up"])

    def beside(parts: Mapping[str, Tensor], x: Tensor) -> Tensor:
        return of.exact(x) + (x @ parts["down"]).relu() @ parts["up"]

    def rows(parts: Mapping[str, Tensor], x: Tensor) -> Tensor:
        return x @ parts["weights"] + parts["bias"]

    return {
        "adapter": ({"down": down, "up": torch.zeros(RANK, width)}, adapted),
        "bypass": ({"down": down, "up": torch.zeros(RANK, classes)}, beside),
        "head": ({"weights": of.weights, "bias": of.bias}, rows),
    }


def trained(of: Material, form: str, rate: float, seed: int) -> Iterator[float]:
    """Yield the accuracy in percent before the first round and after each."""
    chance = torch.Generator().manual_seed(seed)
    parts, scores = forms(of, chance)[form]
    devices = [torch.nonzero(of.owners == device)[:, 0] for device in of.owners.unique()]
    yield accuracy(scores(parts, of.test), of)
    for _ in range(ROUNDS):
        total = {name: torch.zeros_like(part) for name, part in parts.items()}
        for rows in devices:
            local = _locally(
                of, parts, scores, rows[torch.randperm(len(rows), generator=chance)], rate
            )
            for name, part in local.items():
                total[name] += part * (len(rows) / len(of.labels))
        parts = total
        yield accuracy(scores(parts, of.test), of)


def _locally(of: Material, sent: Parts, scores: Scoring, rows: Tensor, rate: float) -> Parts:
    own = {name: part.clone().requires_grad_() for name, part in sent.items()}
    steps = torch.optim.SGD(own.values(), lr=rate, momentum=MOMENTUM)
    for some in rows.split(BATCH):
        loss = cross_entropy(of.scale * scores(own, of.train[some]), of.labels[some])
        steps.zero_grad()
        loss.backward()
        steps.step()
    return {name: part.detach() for name, part in own.items()}


def accuracy(scores: Tensor, of: Material) -> float:
    """Return the share of test samples that are right, in percent."""
    return 100 * float((scores.argmax(dim=1) == of.test_labels).float().mean())


def main(arguments: list[str] | None = None) -> int:
    """Train every form at every rate with every seed, and write what comes of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scenario", default="cifar100-best")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    of = Material.of(ScenarioFeatures.of(options.scenario))
    rows = []
    for form in ("adapter", "bypass", "head"):
        for rate in RATES:
            began = time.process_time()
            runs = [list(trained(of, form, rate, seed)) for seed in SEEDS]
            last = [run[-1] for run in runs]
            row = {
                "form": form,
                "rate": rate,
                "exact": round(runs[0][0], 2),
                "last": round(mean(last), 2),
                "half_interval": round(_T95 * stdev(last) / sqrt(len(last)), 2),
                "best_round": round(max(mean(each) for each in zip(*runs, strict=True)), 2),
                "rounds": [[round(value, 2) for value in run] for run in runs],
                "process_seconds": round(time.process_time() - began, 1),
            }
            rows.append(row)
            print(json.dumps(row), flush=True)
    report = {
        "scenario": options.scenario,
        "rounds": ROUNDS,
        "seeds": list(SEEDS),
        "scale": of.scale,
        "rows": rows,
        "machine": describe_machine("numpy", "torch"),
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
