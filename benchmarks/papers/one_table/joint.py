"""Heads fitted in one place to all images so far, until nothing moves: bounds of what is trained.

    linear   L(W, b) = mean cross-entropy + penalty / 2 |W|^2, of features standardised by mean and
             deviation over all images so far; L-BFGS in float64 (strong Wolfe) until no entry of
             the gradient is above `GRADIENT_BOUND`. L is strictly convex in W, so the minimum does
             not depend on the start, which is that of the stage before.
    hidden   linear to 512, batch normalisation, ReLU, dropout 0.1, linear: from new weights in
             every stage, SGD (momentum 0.9, weight decay 5e-4), cosine to zero over all passes,
             batches of 256. Dropout, momentum and weight decay are those of FedHAF's head.

Both see the float32 features that the fleets' rows see. Neither sends anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console
from torch import Tensor, nn

from benchmarks.papers.one_table.cases import GRADIENT_BOUND, JointFit
from fleetledger.simulator.engines.network_inputs import SampleInputs, inputs_of
from fleetledger.simulator.metrics.task_scores import TaskScores
from fleetledger.simulator.plan.fleet_plan import FleetPlan
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.run.progress import Screen
from fleetledger.simulator.scenario.model import Scenario

HIDDEN, DROPOUT, LARGE_BATCH = 512, 0.1, 256
_MOST_STEPS, _HISTORY = 3000, 30
_LEAST_DEVIATION = 1e-6

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sample:
    """Features (n, d) and the rows of the head that are right for them (n,)."""

    features: Tensor
    rows: Tensor


Fit = Callable[[Sample, int], Callable[[Tensor], Tensor]]
"""From all images so far and the number of classes to scores of features."""


def measured_jointly(scenario: Scenario, kind: JointFit) -> dict[str, Any]:
    """Return what `measuring.measured` returns of a fleet, of a fit of each stage."""
    began = time.process_time()
    seed = scenario.seeds[0]
    prepared = PreparedSeed.load(scenario, seed).prepare(Screen(Console(stderr=True), seeds=1))
    settings = scenario.method.settings
    if kind == "linear":
        linear = LinearFit(float(settings["weight_decay"]))
        scores = _scores(prepared.plan, inputs_of(prepared), _labels(prepared.split), linear)
        more: dict[str, Any] = {"gradient": linear.gradients, "steps": linear.steps}
    else:
        hidden = HiddenFit(float(settings["rate"]), int(settings["epochs"]), seed)
        scores = _scores(prepared.plan, inputs_of(prepared), _labels(prepared.split), hidden)
        more = {"loss": hidden.losses}
    nothing = {"mib_up": 0.0, "mib_down": 0.0, "mib_gradients": 0.0, "device_seconds": 0.0}
    return {
        "accuracy": [round(100 * value, 2) for value in scores.accuracy_seen().tolist()],
        "average": round(100 * scores.average_incremental_accuracy(), 2),
        "last": round(100 * float(scores.accuracy_seen()[-1]), 2),
        "forgetting": round(100 * scores.forgetting(), 2),
        **nothing,
        **more,
        "processor_seconds": round(time.process_time() - began, 1),
    }


class LinearFit:
    """The linear head; each call begins where the one before ended."""

    def __init__(self, penalty: float, bound: float = GRADIENT_BOUND) -> None:
        self._penalty, self._bound = penalty, bound
        self._weights: Tensor | None = None
        self.gradients: list[float] = []
        """Largest entry of the gradient at the end of each call."""
        self.steps: list[int] = []

    def __call__(self, sample: Sample, classes: int) -> Callable[[Tensor], Tensor]:
        """Return the scores of the head that fits `sample`."""
        mean, deviation = _standard(sample.features)

        def seen(features: Tensor) -> Tensor:
            return (features.double() - mean) / deviation

        features = seen(sample.features)
        weights = _grown(self._weights, classes, features.shape[1] + 1).requires_grad_()
        optimiser = torch.optim.LBFGS(
            [weights],
            max_iter=_MOST_STEPS,
            max_eval=2 * _MOST_STEPS,
            tolerance_grad=self._bound,
            tolerance_change=0.0,
            history_size=_HISTORY,
            line_search_fn="strong_wolfe",
        )

        def loss() -> Tensor:
            optimiser.zero_grad()
            scores = features @ weights[:, :-1].T + weights[:, -1]
            fitted = nn.functional.cross_entropy(scores, sample.rows)
            value: Tensor = fitted + self._penalty / 2 * weights[:, :-1].square().sum()
            value.backward()
            return value

        optimiser.step(loss)
        loss()
        assert weights.grad is not None
        self.gradients.append(float(weights.grad.abs().max()))
        self.steps.append(int(optimiser.state[weights]["n_iter"]))
        self._weights = weights.detach()
        found = self._weights
        return lambda asked: seen(asked) @ found[:, :-1].T + found[:, -1]


class HiddenFit:
    """The head with a hidden layer; each call begins from new weights of the same seed."""

    def __init__(self, rate: float, passes: int, seed: int) -> None:
        self._rate, self._passes, self._seed = rate, passes, seed
        self.losses: list[float] = []
        """Mean loss of the last pass of each call."""

    def __call__(self, sample: Sample, classes: int) -> Callable[[Tensor], Tensor]:
        """Return the scores of the head that was trained on `sample`."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            network = nn.Sequential(
                nn.Linear(sample.features.shape[1], HIDDEN),
                nn.BatchNorm1d(HIDDEN),
                nn.ReLU(),
                nn.Dropout(DROPOUT),
                nn.Linear(HIDDEN, classes),
            )
            self.losses.append(round(self._train(network, sample), 5))
        network.eval()

        def scores(features: Tensor) -> Tensor:
            with torch.no_grad():
                found: Tensor = network(features)
                return found

        return scores

    def _train(self, network: nn.Module, sample: Sample) -> float:
        """Train for all passes; return the mean loss of the last one."""
        batches = ceil(len(sample.rows) / LARGE_BATCH)
        optimiser = torch.optim.SGD(
            network.parameters(), self._rate, momentum=0.9, weight_decay=5e-4
        )
        falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self._passes * batches)
        total = 0.0
        for _ in range(self._passes):
            total = 0.0
            for batch in torch.randperm(len(sample.rows)).chunk(batches):
                optimiser.zero_grad()
                scores = network(sample.features[batch])
                loss = nn.functional.cross_entropy(scores, sample.rows[batch])
                loss.backward()
                optimiser.step()
                falling.step()
                total += float(loss.detach()) * len(batch)
        return total / len(sample.rows)


def _scores(
    plan: FleetPlan, inputs: SampleInputs, labels: tuple[Labels, Labels], fit: Fit
) -> TaskScores:
    """Return right answers and questions for each stage and task, of a fit of every stage."""
    train, test = labels
    count = len(plan.stages)
    correct, total = np.zeros((2, count, count), np.int64)
    for row, stage in enumerate(plan.stages):
        seen = np.array(plan.seen(stage.number))
        numbers = np.full(int(max(train.max(), test.max())) + 1, -1, np.int64)
        numbers[seen] = np.arange(len(seen))
        dealt = [part.indices for past in plan.stages[: row + 1] for part in past.devices.values()]
        given: Labels = np.unique(np.concatenate(dealt))
        sample = Sample(
            torch.as_tensor(inputs.train(given)), torch.as_tensor(numbers[train[given]])
        )
        answer = fit(sample, len(seen))
        asked = np.flatnonzero(np.isin(test, seen))
        answers = answer(torch.as_tensor(inputs.test(asked))).argmax(1).numpy()
        right = answers == numbers[test[asked]]
        for column, past in enumerate(plan.stages[: row + 1]):
            of_task = np.isin(test[asked], np.array(past.classes))
            correct[row, column], total[row, column] = right[of_task].sum(), of_task.sum()
    return TaskScores(correct, total)


def _labels(split: Any) -> tuple[Labels, Labels]:  # noqa: ANN401 - of any samples
    return split.train.labels, split.test.labels


def _standard(features: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and deviation (d,) of features (n, d) in float64."""
    whole = features.double()
    return whole.mean(0), whole.std(0, correction=0).clamp(min=_LEAST_DEVIATION)


def _grown(weights: Tensor | None, classes: int, width: int) -> Tensor:
    """Return weights (classes, width) that begin with those there are, and are zero below."""
    grown = torch.zeros(classes, width, dtype=torch.float64)
    if weights is not None:
        grown[: len(weights)] = weights
    return grown
