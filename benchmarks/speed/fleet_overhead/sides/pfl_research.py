"""pfl-research: its `SimulatedBackend` and its loop, with users that do not train.

python pfl_research.py AGENTS FLOATS ROUNDS
"""

# ruff: noqa: ANN401 - the hooks of pfl, which has types of its own
from __future__ import annotations

import sys
from typing import Any

import numpy as np
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import FederatedAlgorithm
from pfl.callback.base import TrainingProcessCallback
from pfl.common_types import Population
from pfl.context import CentralContext
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam.base import AlgorithmHyperParams, ModelHyperParams
from pfl.metrics import Metrics
from pfl.model.base import Model
from pfl.stats import MappedVectorStatistics

from benchmarks.speed.fleet_overhead.sides.telling import STEP, Mark, mark, numbers, tell


class Vector(Model):
    """A model that is one vector, in NumPy."""

    def __init__(self, floats: int) -> None:
        self.weights = np.zeros(floats, np.float32)

    def apply_model_update(self, statistics: MappedVectorStatistics) -> tuple[Vector, Metrics]:
        """Take the mean of the users' vectors."""
        self.weights = statistics["weights"]
        return self, Metrics()


class Echo(FederatedAlgorithm):
    """Federated averaging whose users return what they got, and a little more."""

    def __init__(self, agents: int, rounds: int) -> None:
        super().__init__()
        self._agents = agents
        self._rounds = rounds

    def get_next_central_contexts(
        self,
        model: Vector,
        iteration: int,
        algorithm_params: Any,
        model_train_params: Any,
        model_eval_params: Any = None,
    ) -> Any:
        """Ask all users, as often as there are rounds."""
        if iteration == self._rounds:
            return None, model, Metrics()
        context = CentralContext(
            current_central_iteration=iteration,
            do_evaluation=False,
            cohort_size=self._agents,
            population=Population.TRAIN,
            model_train_params=model_train_params,
            algorithm_params=algorithm_params,
            seed=self._get_seed(),
        )
        return (context,), model, Metrics()

    def simulate_one_user(self, model: Vector, user_dataset: Any, central_context: Any) -> Any:
        """Return a user's vector."""
        trained = model.weights + np.float32(STEP)
        return MappedVectorStatistics({"weights": trained}, weight=1.0), Metrics()

    def process_aggregated_statistics(
        self, central_context: Any, aggregate_metrics: Any, model: Vector, statistics: Any
    ) -> Any:
        """Average."""
        statistics.average()
        return model.apply_model_update(statistics)


class Clock(TrainingProcessCallback):
    """Notes when rounds end."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []

    def on_train_begin(self, *, model: Any) -> Metrics:
        """Note the beginning."""
        self.marks.append(mark())
        return Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Any, model: Any, *, central_iteration: int
    ) -> Any:
        """Note the end of a round."""
        self.marks.append(mark())
        return False, Metrics()


def main() -> None:
    """Run the rounds."""
    agents, floats, rounds = numbers(sys.argv[1:])
    users = [str(number) for number in range(agents)]
    picture = np.zeros((1, 64), np.float32)
    turns = iter(users * (rounds + 1))
    data = FederatedDataset(
        lambda user: Dataset([picture], user_id=user), user_sampler=lambda: next(turns)
    )
    model, clock = Vector(floats), Clock()
    Echo(agents, rounds).run(
        AlgorithmHyperParams(),
        SimulatedBackend(training_data=data, val_data=data),
        model,
        ModelHyperParams(),
        callbacks=[clock],
        send_metrics_to_platform=False,
    )
    assert np.allclose(model.weights, rounds * STEP, rtol=1e-3)
    tell(clock.marks, ["pfl", "numpy"], {})


if __name__ == "__main__":
    main()
