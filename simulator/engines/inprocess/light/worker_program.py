"""The program that trains devices beside the engine: `python -m` this module, from a `WorkerPool`.

It computes on one thread, as the engine does beside it, so that it does not matter who trains whom.
"""

from __future__ import annotations

import gc
import time

import torch

import learning.training.engine  # noqa: F401 - before a lot is waited for
from device_agent.memory import quick_allocation
from learning.numerics.blas import numpy_on_one_thread
from methods import __path__ as method_folders
from methods import registry
from methods.training import LocalData
from schemas.values import DeviceId
from simulator.engines.inprocess.light.batches import Adding
from simulator.engines.inprocess.light.cohort import CohortResources, Member
from simulator.engines.inprocess.light.programs import serve
from simulator.engines.inprocess.light.worker_messages import (
    AskSum,
    Carried,
    DeviceBatch,
    Failed,
    Result,
    Setting,
    Work,
    decode_work,
    encode_result,
)
from simulator.errors import EngineError
from simulator.virtual.stopwatch import Stopwatch


class Worker:
    """What the program knows: where it trains, the round, and the data that it keeps."""

    def __init__(self) -> None:
        self._place: CohortResources | None = None
        self._adding: Adding | None = None
        self._kept: dict[DeviceId, LocalData | None] = {}

    def answer(self, parts: list[bytes]) -> bytes:
        """Do a work; return what comes of it."""
        try:
            return encode_result(self.do(decode_work(parts)))
        except EngineError as error:
            return encode_result(Failed(str(error)))

    def do(self, work: Work) -> Result:
        """Return what comes of a work; raise `EngineError` for what no later try makes better."""
        match work:
            case Setting(place, methods, folders):
                torch.set_num_threads(1)
                registry.METHODS = methods
                method_folders[:] = folders
                self._place = place
                return None
            case DeviceBatch():
                return self._carry_out(work)
            case AskSum():
                assert self._adding is not None
                return self._adding.total.partial()

    def _carry_out(self, lot: DeviceBatch) -> Carried:
        began = time.perf_counter()
        if lot.task is not None:
            assert self._place is not None
            self._adding = Adding(lot.task, self._place, Stopwatch())
        assert self._adding is not None
        done = self._adding.carry_out(self._members(lot))
        return Carried(done, time.perf_counter() - began)

    def _members(self, lot: DeviceBatch) -> list[Member]:
        if lot.forgets:
            self._kept.clear()
        if lot.keeps:
            self._kept.update(lot.data)
        known = self._kept if lot.keeps else {**self._kept, **lot.data}
        return [Member(device, known[device], memory) for device, memory in lot.devices]


if __name__ == "__main__":
    gc.freeze()  # torch alone is 200,000 objects, which need not be gone through again and again
    quick_allocation()
    with numpy_on_one_thread():
        serve(Worker().answer)
