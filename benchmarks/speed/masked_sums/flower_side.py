"""Flower's side: its SecAgg+ workflow and its client's mod, with a grid that is a function call.

Runs in Flower's own environment: `python flower_side.py MEMBERS NUMBERS SILENT`.
"""

from __future__ import annotations

import copy
import json
import logging
import sys
import time
from collections.abc import Iterable
from types import SimpleNamespace

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.app.error import Error
from flwr.client.mod import secaggplus_mod
from flwr.common import (
    Code,
    FitRes,
    Status,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.compat.common.recorddict_compat import (
    arrayrecord_to_parameters,
    fitres_to_recorddict,
    parameters_to_arrayrecord,
)
from flwr.server import LegacyContext
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey
from flwr.supercore.task_identity import TaskIdentity


class Grid:
    """Hands messages to clients in this process, and measures what they take and send."""

    def __init__(self, members: int, numbers: int, silent: int) -> None:
        self.silent = set(range(1, silent + 1))
        self.contexts = {
            node: Context(node, node, {}, RecordDict(), {}) for node in range(1, members + 1)
        }
        self.update = np.linspace(-1, 1, numbers, dtype=np.float32)
        self.client_seconds, self.apart, self.bytes_up = 0.0, 0.0, 0

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Return what clients reply, as a grid does."""
        del timeout
        own = []
        for message in messages:
            began = time.perf_counter()
            copied = copy.deepcopy(message)  # a wire would have done so, at nobody's cost here
            self.apart += time.perf_counter() - began
            own.append(self._reply(copied))
        return own

    def _reply(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        stage = message.content.config_records[RECORD_KEY_CONFIGS][Key.STAGE]
        if node in self.silent and stage in (Stage.COLLECT_MASKED_VECTORS, Stage.UNMASK):
            return Message(Error(1, "gone"), reply_to=message)
        began = time.perf_counter()
        reply = secaggplus_mod(message, self.contexts[node], self._fit)
        self.client_seconds += time.perf_counter() - began
        records = reply.content.config_records[RECORD_KEY_CONFIGS]
        self.bytes_up += sum(map(_size, records.values()))
        return reply

    def _fit(self, message: Message, _context: Context) -> Message:
        result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([self.update]), 10, {})
        return Message(fitres_to_recorddict(result, keep_input=True), reply_to=message)


class Proxies:
    """The clients, as the strategy asks for them."""

    def __init__(self, members: int) -> None:
        self.all = [
            type("Proxy", (), {"cid": str(i), "node_id": i})() for i in range(1, members + 1)
        ]

    def num_available(self) -> int:
        """Return how many there are."""
        return len(self.all)

    def sample(self, **_: object) -> list[SimpleNamespace]:
        """Return all of them."""
        return self.all


def _size(value: object) -> int:
    if isinstance(value, bytes):
        return len(value)
    return sum(map(_size, value)) if isinstance(value, list) else 8


def main() -> None:
    """Print seconds, bytes and the largest error as JSON."""
    members, numbers, silent = map(int, sys.argv[1:4])
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 0
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    grid, strategy = Grid(members, numbers, silent), FedAvg(min_available_clients=members)
    context = LegacyContext(
        Context(0, 0, {}, RecordDict(), {}),
        strategy=strategy,
        client_manager=Proxies(members),
    )
    context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({WorkflowKey.CURRENT_ROUND: 1})
    start = ndarrays_to_parameters([np.zeros(numbers, np.float32)])
    context.state.array_records[MAIN_PARAMS_RECORD] = parameters_to_arrayrecord(start, True)
    workflow = SecAggPlusWorkflow(1.0, 2 / 3, clipping_range=8.0)
    began = time.perf_counter()
    workflow(grid, context)
    seconds = time.perf_counter() - began
    mean = parameters_to_ndarrays(
        arrayrecord_to_parameters(context.state.array_records[MAIN_PARAMS_RECORD], True)
    )[0]
    error = float(np.abs(mean - grid.update).max())
    told = {
        "device_seconds": grid.client_seconds / members,
        "server_seconds": seconds - grid.client_seconds - grid.apart,
        "bytes_up": grid.bytes_up / members,
        "largest_error": error,
    }
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
