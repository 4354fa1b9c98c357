"""fluke: its `FedAVG`, client after client.

python fluke_fl.py CLIENTS ROUNDS
"""

from __future__ import annotations

import sys

import torch
from fluke import DDict, FlukeENV
from fluke.algorithms.fedavg import FedAVG
from fluke.data import DataSplitter, DummyDataContainer, FastDataLoader

from benchmarks.speed.fleet_overhead.sides.fluke_fl import Clock
from benchmarks.speed.fleet_overhead.sides.telling import tell
from benchmarks.speed.fleet_overhead.trained import task


def loaders(train: task.Samples, clients: int) -> list[FastDataLoader]:
    """Return the batches of each client, shuffled in each epoch."""
    return [
        FastDataLoader(
            torch.from_numpy(train.inputs[task.rows(client)]),
            torch.from_numpy(train.labels[task.rows(client)]),
            num_labels=task.CLASSES,
            batch_size=task.BATCH,
            shuffle=True,
        )
        for client in range(clients)
    ]


def main() -> None:
    """Train."""
    clients, rounds = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    environment = FlukeENV()
    environment.set_seed(task.SEED)
    environment.set_device("cpu")
    environment.set_inmemory(True)
    environment.set_eval_cfg(server=False, pre_fit=False, post_fit=False, locals=False)
    train, test = task.samples(clients)
    held = DummyDataContainer(loaders(train, clients), [None] * clients, None, task.CLASSES)
    settings = {
        "client": {
            "batch_size": task.BATCH,
            "local_epochs": task.EPOCHS,
            "loss": "CrossEntropyLoss",
            "optimizer": {"name": "SGD", "lr": task.RATE},
            "scheduler": {"name": "StepLR", "gamma": 1.0, "step_size": 1},
        },
        "server": {"weighted": True},
        "model": task.network(),
    }
    fleet, clock = FedAVG(clients, DataSplitter(held), DDict(settings)), Clock()
    fleet.set_callbacks([clock])
    fleet.run(rounds, 1.0)
    found = {"accuracy": task.accuracy(fleet.server.model, test)}
    tell(clock.marks, ["fluke-fl", "torch", "numpy"], found)


if __name__ == "__main__":
    main()
