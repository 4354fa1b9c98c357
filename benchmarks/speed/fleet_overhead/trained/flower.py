"""Flower: its simulation on Ray and its FedAvg, with clients that train the network.

python flower.py CLIENTS ROUNDS
"""

from __future__ import annotations

import sys

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.speed.fleet_overhead.sides.telling import Mark, mark_all, tell
from benchmarks.speed.fleet_overhead.trained import task

client = ClientApp()
server = ServerApp()
marks: list[Mark] = []
ended: list[ArrayRecord] = []


@client.train()
def train(message: Message, context: Context) -> Message:
    """Train a client's copy of the weights that came."""
    held = _held(int(context.node_config["num-partitions"]))
    rows = task.rows(int(context.node_config["partition-id"]))
    torch.set_num_threads(1)
    model = task.network()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    task.train(model, held[0][rows], held[1][rows])
    content = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": task.SAMPLES}),
    }
    return Message(RecordDict(content), reply_to=message)


def _held(clients: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return all training samples, which each actor draws once."""
    global _samples  # noqa: PLW0603 - an actor trains many clients
    if _samples is None:
        train_samples, _ = task.samples(clients)
        _samples = torch.from_numpy(train_samples.inputs), torch.from_numpy(train_samples.labels)
    return _samples


_samples: tuple[torch.Tensor, torch.Tensor] | None = None


@server.main()
def lead(grid: Grid, context: Context) -> None:
    """Run the rounds with all clients."""
    del context
    clients, rounds = int(sys.argv[1]), int(sys.argv[2])
    torch.manual_seed(task.SEED)
    strategy = FedAvg(
        fraction_train=1.0,
        fraction_evaluate=0.0,
        min_train_nodes=clients,
        min_available_nodes=clients,
    )
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(task.network().state_dict()),
        num_rounds=rounds,
        timeout=3600,
        evaluate_fn=note,
    )


def note(number: int, arrays: ArrayRecord) -> MetricRecord | None:
    """Note when a round has ended; number 0 comes before the first."""
    del number
    marks.append(mark_all())
    ended.append(arrays)


def main() -> None:
    """Run the rounds: one actor per core."""
    clients, rounds = int(sys.argv[1]), int(sys.argv[2])
    run_simulation(
        server,
        client,
        num_supernodes=clients,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    assert len(marks) == rounds + 1, "a round failed"
    model = task.network()
    model.load_state_dict(ended[-1].to_torch_state_dict())
    found = {"accuracy": task.accuracy(model, task.samples(clients)[1])}
    tell(marks, ["flwr", "ray", "torch", "numpy"], found)


if __name__ == "__main__":
    main()
