"""fluke: its `FedAVG`, with clients that do not train.

python fluke_fl.py AGENTS FLOATS ROUNDS
"""

from __future__ import annotations

import sys

import torch
from fluke import DDict, FlukeENV
from fluke.algorithms.fedavg import FedAVG
from fluke.client import Client
from fluke.data import DataSplitter, DummyDataContainer, FastDataLoader
from fluke.utils import FederationObserver
from torch import nn

from benchmarks.speed.fleet_overhead.sides.telling import STEP, Mark, mark, numbers, tell


class Vector(nn.Module):
    """A model that is one vector."""

    def __init__(self, floats: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(floats))


class Echo(Client):
    """Returns what it got, and a little more."""

    def fit(self, override_local_epochs: int = 0) -> float:
        """Add a constant."""
        del override_local_epochs
        with torch.no_grad():
            self.model.weights += STEP
        return 0.0


class Echoing(FedAVG):
    """Federated averaging of them."""

    def get_client_class(self) -> type[Client]:
        """Return whose answers are averaged."""
        return Echo


class Clock(FederationObserver):
    """Notes when rounds end."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []

    def start_round(self, round: int, global_model: object) -> None:
        """Note the beginning of the first."""
        del round, global_model
        if not self.marks:
            self.marks.append(mark())

    def end_round(self, round: int) -> None:
        """Note the end of a round."""
        del round
        self.marks.append(mark())


def main() -> None:
    """Run the rounds."""
    agents, floats, rounds = numbers(sys.argv[1:])
    torch.set_num_threads(1)
    environment = FlukeENV()
    environment.set_device("cpu")
    environment.set_inmemory(True)
    environment.set_eval_cfg(server=False, pre_fit=False, post_fit=False, locals=False)
    picture = FastDataLoader(
        torch.zeros(1, 64), torch.zeros(1, dtype=torch.int64), num_labels=2, skip_singleton=False
    )
    held = DummyDataContainer([picture] * agents, [None] * agents, None, 2)
    settings = {
        "client": {
            "batch_size": 1,
            "local_epochs": 1,
            "loss": "CrossEntropyLoss",
            "optimizer": {"name": "SGD", "lr": 1.0},
            "scheduler": {"name": "StepLR", "gamma": 1.0, "step_size": 1},
        },
        "server": {"weighted": False},
        "model": Vector(floats),
    }
    fleet, clock = Echoing(agents, DataSplitter(held), DDict(settings)), Clock()
    fleet.set_callbacks([clock])
    fleet.run(rounds, 1.0)
    ended = fleet.server.model.weights.detach()
    assert torch.allclose(ended, torch.tensor(rounds * STEP), rtol=1e-3)
    tell(clock.marks, ["fluke-fl", "torch"], {})


if __name__ == "__main__":
    main()
