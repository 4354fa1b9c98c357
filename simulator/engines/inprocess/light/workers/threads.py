"""Workers on threads of this program, where Python runs threads side by side.

Each has a sum, a trainer and copies of modules of its own; inputs and the task of a round are the
engine's objects. Nothing is sent or started, so a worker takes no memory but what it trains in.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from fleetledger.methods.training.exchange import Partial
from fleetledger.simulator.engines.inprocess.light.cohort import CohortResources
from fleetledger.simulator.engines.inprocess.light.workers.lots import Worker
from fleetledger.simulator.engines.inprocess.light.workers.processes import HERE, check_on_processor

if TYPE_CHECKING:
    from fleetledger.simulator.engines.inprocess.light.workers.lot_trainer import LotTrainer

Result = TypeVar("Result")


def threads_run_side_by_side() -> bool:
    """Return whether this Python is free-threaded, and no module has taken that back."""
    enabled = getattr(sys, "_is_gil_enabled", None)
    return enabled is not None and not enabled()


@dataclass(frozen=True)
class OwnThread:
    """A thread, and the trainer that it alone calls."""

    executor: ThreadPoolExecutor
    trainer: LotTrainer


class ThreadPool:
    """A `WorkerPool` of threads."""

    engine_trains = True

    def __init__(self, place: CohortResources) -> None:
        """Raise `EngineError` where devices are not trained on the processor."""
        check_on_processor(place)
        self._place = place

    def start(self) -> Worker:
        """Start a thread."""
        from fleetledger.simulator.engines.inprocess.light.workers.lot_trainer import LotTrainer  # noqa: PLC0415 - torch

        executor = ThreadPoolExecutor(1, "worker", _compute_alone)
        thread = OwnThread(executor, LotTrainer(replace(self._place)))
        return Worker(thread, executor.submit(str, HERE))

    def share(self, value: Any) -> Any:  # noqa: ANN401 - a task, or the inputs of all samples
        """Return the value: threads see it."""
        return value

    def ask(self, worker: Worker, method: str, *given: Any) -> Future[Any]:  # noqa: ANN401
        """Have the thread call a method of its trainer."""
        asked: Future[Any] = worker.handle.executor.submit(
            getattr(worker.handle.trainer, method), *given
        )
        return asked

    def sums(self, workers: Sequence[Worker]) -> Sequence[Future[Partial]]:
        """Return the sum of each."""
        return [self.ask(worker, "partial") for worker in workers]

    def result(self, asked: Future[Result]) -> Result:
        """Wait for it; a thread is never lost."""
        return asked.result()

    def end(self, worker: Worker) -> None:
        """Begin nothing more; what it does now ends with its lot."""
        worker.handle.executor.shutdown(cancel_futures=True)

    def close(self) -> None:
        """Nothing was shared that has to be given back."""


def _compute_alone() -> None:
    """Let this thread compute on no other."""
    import torch  # noqa: PLC0415 - needs torch

    torch.set_num_threads(1)
