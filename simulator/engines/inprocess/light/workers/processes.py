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
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing.shared_memory import SharedMemory
from typing import Any, Generic, TypeVar

import numpy as np

from fleetledger.methods.training import Partial
from fleetledger.simulator.engines.inprocess.light.cohort import CohortResources
from fleetledger.simulator.engines.inprocess.light.holdings import TrainInputs
from fleetledger.simulator.engines.inprocess.light.task import RoundTask
from fleetledger.simulator.engines.inprocess.light.workers.interface import (
    LotMember,
    Pending,
    TrainedLot,
    Worker,
    WorkerLostError,
)
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.virtual.training import torch_device

_START_METHOD = "spawn"
Result = TypeVar("Result")


class SharedInputs:
    """Inputs of all samples in memory that all processes of this machine see."""

    def __init__(self, inputs: TrainInputs) -> None:
        self._memory = SharedMemory(create=True, size=max(1, inputs.nbytes))
        self.place = self._memory.name, inputs.dtype.str, inputs.shape
        """What another process asks for it by."""
        np.ndarray(inputs.shape, inputs.dtype, self._memory.buf)[...] = inputs

    def close(self) -> None:
        """Give the memory back, once nobody uses it any more."""
        self._memory.close()
        self._memory.unlink()


class ProcessWorker:
    """A worker in a process of its own."""

    def __init__(self, place: CohortResources) -> None:
        from fleetledger.simulator.engines.inprocess.light.workers.training import (  # noqa: PLC0415 - torch
            known_methods,
        )

        starting = multiprocessing.get_context(_START_METHOD)
        given = (replace(place), *known_methods())
        self._pool = ProcessPoolExecutor(1, starting, _begin_process, given)
        before = set(multiprocessing.active_children())
        self._started = self._pool.submit(_nothing)
        self._processes = set(multiprocessing.active_children()) - before
        self.is_lost = False

    @property
    def pid(self) -> int | None:
        """Of its process."""
        return next((process.pid for process in self._processes), None)

    def is_there(self) -> bool:
        """Whether it has come so far that it can train, or never will."""
        return self._started.done()

    def wait(self) -> None:
        """Wait until it is there; raise `WorkerLostError`."""
        _Promise(self, self._started).result()

    def begin(self, task: RoundTask, inputs: SharedInputs | None) -> None:
        """Begin with a round; what goes wrong, the next lot tells."""
        self.ask(_begin_round, replace(task), None if inputs is None else inputs.place)

    def train(self, lot: Sequence[LotMember]) -> Pending[TrainedLot]:
        """Have it train a lot of the round that it was given last."""
        return self.ask(_train, lot)

    def ask(self, what: Callable[..., Result], *given: Any) -> Pending[Result]:  # noqa: ANN401
        """Have its process call a function after what it was asked for before."""
        try:
            return _Promise(self, self._pool.submit(what, *given))
        except BrokenProcessPool as error:
            lost: Future[Result] = Future()
            lost.set_exception(error)
            return _Promise(self, lost)

    def close(self) -> None:
        """End it; what it does now, nobody waits for: a training may take minutes."""
        for process in self._processes:
            process.kill()
        self._pool.shutdown(cancel_futures=True)


class LocalWorkers:
    """The workers of a run in processes of this machine."""

    engine_trains = True

    def __init__(self, place: CohortResources, number: int) -> None:
        """Start them; raise `EngineError` where devices are not trained on the processor."""
        where = torch_device(place.trainers.device)
        if where != "cpu":
            raise EngineError(
                f"engine.workers: {number} beside a GPU, where devices are trained ({where}); set "
                "engine.device to 'cpu', or leave workers out"
            )
        self._place = place
        self._inputs: SharedInputs | None = None
        self._own = [ProcessWorker(place) for _ in range(number)]

    @property
    def everybody(self) -> Sequence[Worker]:
        """All of them."""
        return self._own

    def share(self, inputs: TrainInputs) -> None:
        """Let all workers have the inputs of all training samples."""
        self._inputs = SharedInputs(inputs)

    def begin(self, worker: Worker, task: RoundTask) -> None:
        """Let a worker begin with a round."""
        self._known(worker).begin(task, self._inputs)

    def sums(self, workers: Sequence[Worker]) -> Sequence[Pending[Partial]]:
        """Return the sum of each."""
        return [self._known(worker).ask(_partial) for worker in workers]

    def replace(self, worker: Worker) -> Worker:
        """Start another in the place of one."""
        lost = self._known(worker)
        lost.close()
        self._own[self._own.index(lost)] = another = ProcessWorker(self._place)
        return another

    def close(self) -> None:
        """End all of them."""
        for worker in self._own:
            worker.close()
        if self._inputs is not None:
            self._inputs.close()

    def _known(self, worker: Worker) -> ProcessWorker:
        return next(one for one in self._own if one is worker)


class _Promise(Generic[Result]):
    """What a process was asked for; a `Pending`."""

    def __init__(self, worker: ProcessWorker, future: Future[Result]) -> None:
        self._worker = worker
        self._future = future
        self.is_ready = future.done

    def result(self) -> Result:
        """Wait for it."""
        try:
            return self._future.result()
        except BrokenProcessPool as error:
            self._worker.is_lost = True
            raise WorkerLostError(str(error)) from error


# In the process of a worker: what it trains with, and the shared memory that it looks into.
_trainer: Any = None
_seen: dict[str, SharedMemory] = {}


def _begin_process(place: CohortResources, methods: Any, folders: Any) -> None:  # noqa: ANN401
    from fleetledger.simulator.engines.inprocess.light.workers.training import LotTrainer  # noqa: PLC0415

    global _trainer  # noqa: PLW0603 - a process is one worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever began it ends it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _trainer = LotTrainer(place, methods, folders)
    gc.freeze()  # torch alone is 200,000 objects, which need not be gone through again and again


def _end_with_parent() -> None:
    """End this process when the engine's has: nobody waits for what it does."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _nothing() -> None:
    """Say that the process is there."""


def _begin_round(task: RoundTask, place: tuple[str, str, tuple[int, ...]] | None) -> None:
    if place is None:
        _trainer.begin(task, None)
        return
    name, kind, shape = place
    if name not in _seen:
        _seen[name] = SharedMemory(name)
    inputs: TrainInputs = np.ndarray(shape, kind, _seen[name].buf)
    inputs.setflags(write=False)
    _trainer.begin(task, inputs)


def _train(lot: Sequence[LotMember]) -> TrainedLot:
    trained: TrainedLot = _trainer.train(lot)
    return trained


def _partial() -> Partial:
    partial: Partial = _trainer.partial()
    return partial
