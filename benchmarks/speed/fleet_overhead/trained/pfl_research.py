"""pfl-research: `FederatedAveraging` and `PyTorchModel` on its `SimulatedBackend`.

python pfl_research.py CLIENTS ROUNDS
"""

# ruff: noqa: ANN401 - the hooks of pfl, which has types of its own
from __future__ import annotations

import sys
from typing import Any

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.model.pytorch import PyTorchModel
from torch import nn

from benchmarks.speed.fleet_overhead.sides.pfl_research import Clock
from benchmarks.speed.fleet_overhead.sides.telling import tell
from benchmarks.speed.fleet_overhead.trained import task


class Learned(nn.Module):
    """The network, with the two functions that pfl asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.network = task.network()

    def loss(self, inputs: torch.Tensor, labels: torch.Tensor, **_more: Any) -> torch.Tensor:
        """Return the loss of a batch."""
        return nn.functional.cross_entropy(self.network(inputs), labels)

    def metrics(self, inputs: torch.Tensor, labels: torch.Tensor, **_more: Any) -> dict[str, Any]:
        """Return nothing: the test is at the end."""
        del inputs, labels
        return {}


def main() -> None:
    """Train."""
    clients, rounds = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    torch.manual_seed(task.SEED)
    train, test = task.samples(clients)
    held = [
        Dataset(
            [
                torch.from_numpy(train.inputs[task.rows(client)]),
                torch.from_numpy(train.labels[task.rows(client)]),
            ],
            user_id=str(client),
        )
        for client in range(clients)
    ]
    turns = iter([client for _ in range(rounds + 1) for client in range(clients)])
    data = FederatedDataset(lambda client: held[client], user_sampler=lambda: next(turns))
    network, clock = Learned(), Clock()
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=rounds,
            evaluation_frequency=rounds + 1,
            train_cohort_size=clients,
            val_cohort_size=0,
        ),
        SimulatedBackend(training_data=data, val_data=data),
        PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), lr=1.0)),
        NNTrainHyperParams(
            local_batch_size=task.BATCH,
            local_num_epochs=task.EPOCHS,
            local_learning_rate=task.RATE,
        ),
        callbacks=[clock],
        send_metrics_to_platform=False,
    )
    found = {"accuracy": task.accuracy(network.network, test)}
    tell(clock.marks, ["pfl", "torch", "numpy"], found)


if __name__ == "__main__":
    main()
