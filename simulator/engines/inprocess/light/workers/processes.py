"""Workers in processes of this machine: the standard library's pools, of one process each.

A process of its own for each, since a worker has a sum of its own. Inputs of samples lie in shared
memory; lots and what comes of them travel between processes of this program alone.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing.process import BaseProcess
from multiprocessing.shared_memory import SharedMemory
from typing import Any, TypeVar

import numpy as np

from fleetledger.methods.training.exchange import Partial
from fleetledger.runtime.registry import modules_for_children
from fleetledger.simulator.engines.inprocess.light.cohort import CohortResources
from fleetledger.simulator.engines.inprocess.light.holdings import TrainInputs
from fleetledger.simulator.engines.inprocess.light.workers.lots import Worker, WorkerLostError
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.virtual.training import torch_device

_START_METHOD = "spawn"
HERE = "this machine"
Result = TypeVar("Result")


def check_on_processor(place: CohortResources) -> None:
    """Raise `EngineError` where devices are not trained on the processor."""
    where = torch_device(place.trainers.device)
    if where != "cpu":
        raise EngineError(
            f"engine.workers: not beside a GPU, where devices are trained ({where}); set "
            "engine.device to 'cpu', or leave workers out"
        )


class SharedArray:
    """An array in memory that all processes of this machine see; it reaches them as the array."""

    def __init__(self, array: TrainInputs) -> None:
        self._memory = SharedMemory(create=True, size=max(1, array.nbytes))
        self._place = self._memory.name, array.dtype.str, array.shape
        np.ndarray(array.shape, array.dtype, self._memory.buf)[...] = array

    def __reduce__(self) -> tuple[Any, ...]:
        return _seen, self._place

    def close(self) -> None:
        """Give the memory back, once nobody uses it any more."""
        self._memory.close()
        self._memory.unlink()


@dataclass(frozen=True)
class OwnProcess:
    """A process, and what has it do things."""

    executor: ProcessPoolExecutor
    process: BaseProcess


class ProcessPool:
    """A `WorkerPool` of processes of this machine."""

    engine_trains = True

    def __init__(self, place: CohortResources) -> None:
        """Raise `EngineError` where devices are not trained on the processor."""
        check_on_processor(place)
        self._given = (replace(place), modules_for_children())
        self._shared: list[SharedArray] = []

    def start(self) -> Worker:
        """Start a process."""
        starting = multiprocessing.get_context(_START_METHOD)
        executor = ProcessPoolExecutor(1, starting, _begin_process, self._given)
        before = set(multiprocessing.active_children())
        started = executor.submit(str, HERE)
        (process,) = set(multiprocessing.active_children()) - before
        return Worker(OwnProcess(executor, process), started)

    def share(self, value: Any) -> Any:  # noqa: ANN401 - a task, or the inputs of all samples
        """Return an array in memory that all see, or the value itself."""
        if not isinstance(value, np.ndarray):
            return value
        self._shared.append(SharedArray(value))
        return self._shared[-1]

    def ask(self, worker: Worker, method: str, *given: Any) -> Future[Any]:  # noqa: ANN401
        """Have the process call a method of its trainer."""
        try:
            asked: Future[Any] = worker.handle.executor.submit(_call, method, *given)
        except BrokenProcessPool as error:
            asked = Future()
            asked.set_exception(error)
        return asked

    def sums(self, workers: Sequence[Worker]) -> Sequence[Future[Partial]]:
        """Return the sum of each."""
        return [self.ask(worker, "partial") for worker in workers]

    def result(self, asked: Future[Result]) -> Result:
        """Wait for it."""
        try:
            return asked.result()
        except BrokenProcessPool as error:
            raise WorkerLostError(str(error)) from error

    def end(self, worker: Worker) -> None:
        """End it at once: a training may take minutes."""
        worker.handle.process.kill()
        worker.handle.executor.shutdown(cancel_futures=True)

    def close(self) -> None:
        """Give shared memory back."""
        for array in self._shared:
            array.close()


# In the process of a worker.
_trainer: Any = None


def _begin_process(*given: Any) -> None:  # noqa: ANN401 - what a trainer is made with
    from fleetledger.simulator.engines.inprocess.light.workers.lot_trainer import LotTrainer  # noqa: PLC0415

    global _trainer  # noqa: PLW0603 - a process is one worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever began it ends it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _trainer = LotTrainer(*given)
    gc.freeze()  # torch alone is 200,000 objects, which need not be gone through again and again


def _end_with_parent() -> None:
    """End this process when the engine's has: nobody waits for what it does."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _call(method: str, *given: Any) -> Any:  # noqa: ANN401 - the method's
    return getattr(_trainer, method)(*given)


@cache
def _seen(name: str, kind: str, shape: tuple[int, ...]) -> TrainInputs:
    """Return an array that another process shares; it lasts as long as this process."""
    _kept.append(SharedMemory(name))
    array: TrainInputs = np.ndarray(shape, kind, _kept[-1].buf)
    array.setflags(write=False)
    return array


_kept: list[SharedMemory] = []
