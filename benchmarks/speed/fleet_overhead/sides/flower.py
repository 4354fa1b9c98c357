"""Flower: its simulation on Ray and its FedAvg, with clients that do not train.

python flower.py AGENTS FLOATS ROUNDS
"""

from __future__ import annotations

import sys

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from telling import STEP, Mark, mark_all, numbers, tell

client = ClientApp()
server = ServerApp()
marks: list[Mark] = []
ended: list[np.ndarray] = []


@client.train()
def train(message: Message, context: Context) -> Message:
    """Return the weights that came, and a little more."""
    del context
    (weights,) = message.content["arrays"].to_numpy_ndarrays()
    content = {
        "arrays": ArrayRecord([weights + np.float32(STEP)]),
        "metrics": MetricRecord({"num-examples": 1}),
    }
    return Message(RecordDict(content), reply_to=message)


@server.main()
def lead(grid: Grid, context: Context) -> None:
    """Run the rounds with all clients."""
    del context
    agents, floats, rounds = numbers(sys.argv[1:])
    strategy = FedAvg(
        fraction_train=1.0,
        fraction_evaluate=0.0,
        min_train_nodes=agents,
        min_available_nodes=agents,
    )
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord([np.zeros(floats, np.float32)]),
        num_rounds=rounds,
        timeout=3600,
        evaluate_fn=note,
    )


def note(number: int, arrays: ArrayRecord) -> MetricRecord | None:
    """Note when a round has ended; number 0 comes before the first."""
    del number
    marks.append(mark_all())
    ended.append(arrays.to_numpy_ndarrays()[0])


def main() -> None:
    """Run the rounds: one actor per core, as many clients as were asked for."""
    agents, _, rounds = numbers(sys.argv[1:])
    run_simulation(
        server,
        client,
        num_supernodes=agents,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    assert len(marks) == rounds + 1, "a round failed"
    assert np.allclose(ended[-1], rounds * STEP, rtol=1e-3)
    tell(marks, ["flwr", "ray", "numpy"], {})


if __name__ == "__main__":
    main()
