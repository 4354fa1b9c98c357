"""pfl-research on the same devices: its central Gaussian mechanism, accountant and simulator.

python pfl_side.py DEALT.npz SETTINGS.json

DEALT holds images, labels and each device's rows, SETTINGS what `run.py` gives both sides. The
model is a softmax regression in NumPy, trained as ours is; all the rest is pfl's. It prints one
line of JSON.
"""

# ruff: noqa: ANN401 - the hooks of pfl, which has types of its own
from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import FederatedAlgorithm
from pfl.common_types import Population
from pfl.context import CentralContext
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam.base import AlgorithmHyperParams, ModelHyperParams
from pfl.metrics import Metrics
from pfl.model.base import Model
from pfl.privacy.gaussian_mechanism import GaussianMechanism
from pfl.privacy.privacy_accountant import PLDPrivacyAccountant
from pfl.privacy.privacy_mechanism import CentrallyAppliedPrivacyMechanism
from pfl.stats import MappedVectorStatistics

Arrays = dict[str, Any]


class Softmax(Model):
    """A softmax regression."""

    def __init__(self, inputs: int, classes: int) -> None:
        self.arrays: Arrays = {
            "weight": np.zeros((inputs, classes), np.float32),
            "bias": np.zeros(classes, np.float32),
        }

    def apply_model_update(self, statistics: MappedVectorStatistics) -> tuple[Softmax, Metrics]:
        """Add the mean of the users' moves."""
        self.arrays = {name: self.arrays[name] + statistics[name] for name in self.arrays}
        return self, Metrics()


def trained(start: Arrays, images: Any, labels: Any, told: Any, random: Any) -> Arrays:
    """Return how far a user's training moves the model: epochs of SGD over shuffled batches."""
    weight, bias = (start[name].copy() for name in ("weight", "bias"))
    for _ in range(told["epochs"]):
        order = random.permutation(len(labels))
        for first in range(0, len(order), told["batch"]):
            rows = order[first : first + told["batch"]]
            scores = images[rows] @ weight + bias
            scores -= scores.max(axis=1, keepdims=True)
            slope = np.exp(scores)
            slope /= slope.sum(axis=1, keepdims=True)
            slope[np.arange(len(rows)), labels[rows]] -= 1
            slope *= np.float32(told["rate"] / len(rows))
            weight -= images[rows].T @ slope
            bias -= slope.sum(axis=0)
    return {"weight": weight - start["weight"], "bias": bias - start["bias"]}


class Averaging(FederatedAlgorithm):
    """Federated averaging of all users, round by round."""

    def __init__(self, users: int, told: Any) -> None:
        super().__init__()
        self._users, self._told = users, told
        self._random = np.random.default_rng(told["seed"])

    def get_next_central_contexts(
        self,
        model: Softmax,
        iteration: int,
        algorithm_params: Any,
        model_train_params: Any,
        model_eval_params: Any = None,
    ) -> Any:
        """Ask all users, as often as there are rounds."""
        if iteration == self._told["rounds"]:
            return None, model, Metrics()
        context = CentralContext(
            current_central_iteration=iteration,
            do_evaluation=False,
            cohort_size=self._users,
            population=Population.TRAIN,
            model_train_params=model_train_params,
            algorithm_params=algorithm_params,
            seed=self._get_seed(),
        )
        return (context,), model, Metrics()

    def simulate_one_user(self, model: Softmax, user_dataset: Any, central_context: Any) -> Any:
        """Train on a user's images."""
        images, labels = user_dataset.raw_data
        moved = trained(model.arrays, images, labels, self._told, self._random)
        return MappedVectorStatistics(moved, weight=1.0), Metrics()

    def process_aggregated_statistics(
        self, central_context: Any, aggregate_metrics: Any, model: Softmax, statistics: Any
    ) -> Any:
        """Average."""
        statistics.average()
        return model.apply_model_update(statistics)


def mechanisms(told: Any) -> tuple[list[Any], float]:
    """Return what is done to users' moves and to their sum, and the noise multiplier."""
    if told["clip"] is None:
        return [], 0.0
    if told["epsilon"] is None:
        noise = 0.0
    else:
        noise = PLDPrivacyAccountant(
            num_compositions=told["rounds"],
            sampling_probability=1.0,
            mechanism="gaussian",
            epsilon=told["epsilon"],
            delta=told["delta"],
        ).cohort_noise_parameter
    gaussian = GaussianMechanism(told["clip"], noise)
    return [CentrallyAppliedPrivacyMechanism(gaussian)], noise


def main() -> None:
    """Run the rounds, and print what came of them."""
    dealt, told = np.load(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    np.random.seed(told["seed"])
    images, labels = dealt["train"].astype(np.float32), dealt["train_labels"]
    rows = np.split(dealt["rows"], np.cumsum(dealt["sizes"])[:-1])
    turns = iter([*range(len(rows))] * (told["rounds"] + 1))
    users = FederatedDataset(
        lambda user: Dataset([images[rows[user]], labels[rows[user]]], user_id=str(user)),
        user_sampler=lambda: next(turns),
    )
    model = Softmax(images.shape[1], int(labels.max()) + 1)
    steps, noise = mechanisms(told)
    began = time.perf_counter()
    Averaging(len(rows), told).run(
        AlgorithmHyperParams(),
        SimulatedBackend(training_data=users, val_data=users, postprocessors=steps),
        model,
        ModelHyperParams(),
        send_metrics_to_platform=False,
    )
    scores = dealt["test"].astype(np.float32) @ model.arrays["weight"] + model.arrays["bias"]
    line = {
        "accuracy": round(100 * float(np.mean(scores.argmax(1) == dealt["test_labels"])), 2),
        "noise": round(noise, 4),
        "seconds": round(time.perf_counter() - began, 1),
        "versions": {name: version(name) for name in ("pfl", "dp-accounting", "numpy")},
    }
    sys.stdout.write(f"\n{json.dumps(line)}\n")


if __name__ == "__main__":
    main()
