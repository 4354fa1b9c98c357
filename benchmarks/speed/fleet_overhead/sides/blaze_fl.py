"""BlazeFL 3: its FedAvg server, with clients that do not train.

python blaze_fl.py AGENTS FLOATS ROUNDS
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import torch
from blazefl.contrib.fedavg import FedAvgBaseServerHandler, FedAvgUplinkPackage
from blazefl.core import ThreadPoolClientTrainer
from telling import STEP, mark, numbers, tell
from torch import nn


class Vector(nn.Module):
    """A model that is one vector."""

    def __init__(self, floats: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(floats))


class Selector:
    """Makes the model."""

    def __init__(self, floats: int) -> None:
        self._floats = floats

    def select_model(self, model_name: str) -> nn.Module:
        """Return a new one."""
        del model_name
        return Vector(self._floats)


class Echo(ThreadPoolClientTrainer):
    """Clients on threads that return what they got, and a little more."""

    def __init__(self) -> None:
        self.num_parallels = len(os.sched_getaffinity(0))
        self.device, self.device_count = "cpu", 0
        self.cache: list[FedAvgUplinkPackage] = []
        self.stop_event = threading.Event()

    def worker(self, cid: int, device: str, payload: Any, stop_event: Any) -> FedAvgUplinkPackage:  # noqa: ANN401 - BlazeFL's
        """Return a client's vector."""
        del device, stop_event
        return FedAvgUplinkPackage(cid, payload.model_parameters + STEP, 1)

    def uplink_package(self) -> list[FedAvgUplinkPackage]:
        """Return what came."""
        answers, self.cache = self.cache, []
        return answers


def main() -> None:
    """Run the rounds."""
    agents, floats, rounds = numbers(sys.argv[1:])
    torch.set_num_threads(1)
    server = FedAvgBaseServerHandler(
        model_selector=Selector(floats),
        model_name="vector",
        dataset=None,
        global_round=rounds,
        num_clients=agents,
        sample_ratio=1.0,
        device="cpu",
        batch_size=1,
        seed=1,
    )
    trainer, marks = Echo(), [mark()]
    while not server.is_stopped():
        trainer.local_process(server.downlink_package(), server.sample_clients())
        for answer in trainer.uplink_package():
            server.load(answer)
        marks.append(mark())
    ended = server.model.weights.detach()
    assert torch.allclose(ended, torch.tensor(rounds * STEP), rtol=1e-3)
    tell(marks, ["blazefl", "torch"], {})


if __name__ == "__main__":
    main()
