"""BlazeFL 3: its FedAvg, with a thread per core where Python runs threads side by side.

python blaze_fl.py CLIENTS ROUNDS
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
from blazefl.contrib.fedavg import (
    FedAvgBaseClientTrainer,
    FedAvgBaseServerHandler,
    FedAvgThreadPoolClientTrainer,
)
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.speed.fleet_overhead.sides.telling import mark, tell
from benchmarks.speed.fleet_overhead.trained import task


class Selector:
    """Makes the network."""

    def select_model(self, model_name: str) -> nn.Module:
        """Return a new one."""
        del model_name
        return task.network()


class Parts:
    """The samples of each client."""

    def __init__(self, train: task.Samples, clients: int) -> None:
        inputs, labels = torch.from_numpy(train.inputs), torch.from_numpy(train.labels)
        rows = [task.rows(client) for client in range(clients)]
        self._parts = [TensorDataset(inputs[of], labels[of]) for of in rows]

    def get_dataset(self, type_: str, cid: int) -> TensorDataset:
        """Return a client's samples."""
        del type_
        return self._parts[cid]

    def get_dataloader(
        self, type_: str, cid: int, batch_size: int, generator: torch.Generator | None
    ) -> DataLoader[Any]:
        """Return a client's batches, shuffled in each epoch."""
        part = self.get_dataset(type_, cid)
        return DataLoader(part, batch_size, shuffle=True, generator=generator)


def main() -> None:
    """Train."""
    clients, rounds = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    torch.manual_seed(task.SEED)
    train, test = task.samples(clients)
    common: dict[str, Any] = {
        "model_selector": Selector(),
        "model_name": "convnet",
        "dataset": Parts(train, clients),
        "num_clients": clients,
        "device": "cpu",
        "batch_size": task.BATCH,
        "seed": task.SEED,
    }
    server = FedAvgBaseServerHandler(global_round=rounds, sample_ratio=1.0, **common)
    local = {**common, "epochs": task.EPOCHS, "lr": task.RATE}
    if getattr(sys, "_is_gil_enabled", lambda: True)():
        trainer: Any = FedAvgBaseClientTrainer(**local)
    else:
        cores = len(os.sched_getaffinity(0))
        trainer = FedAvgThreadPoolClientTrainer(num_parallels=cores, **local)
    marks = [mark()]
    while not server.is_stopped():
        trainer.local_process(server.downlink_package(), server.sample_clients())
        for answer in trainer.uplink_package():
            server.load(answer)
        marks.append(mark())
    tell(marks, ["blazefl", "torch"], {"accuracy": task.accuracy(server.model, test)})


if __name__ == "__main__":
    main()
