"""Programs beside the engine that train devices, too: `engine.workers` of them.

They get lots of devices with their data, and give back what is said of every answer. Payloads stay
where they were made: each program has a sum of its own, and sums are exact, so at the end of a
round they are joined to what one process would have added. The engine trains lots itself while
nobody else has time, and hands on everything in the order of the cohort.

All of them compute on one thread: then it does not matter who trains whom.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from methods import __path__ as method_folders
from methods import registry
from methods.training import Partial, Summing
from schemas.values import DeviceId
from simulator.engines.inprocess.light.batches import Adding, Done
from simulator.engines.inprocess.light.cohort import CohortResources, DatasetLookup
from simulator.engines.inprocess.light.programs import Program
from simulator.engines.inprocess.light.task import RoundTask
from simulator.engines.inprocess.light.worker_messages import (
    AskSum,
    Carried,
    DeviceBatch,
    Failed,
    Result,
    Setting,
    decode_result,
    encode_work,
)
from simulator.errors import EngineError
from simulator.virtual.stopwatch import Stopwatch
from simulator.virtual.training import torch_device

_PROGRAM = "simulator.engines.inprocess.light.worker_program"
_LOT_SECONDS = 0.008
"""That a lot of devices takes; lots of 3 ms cost 6 % more of the processor."""
_LEAST_SECONDS = 0.001
"""That one takes towards the end of a round."""
_LARGEST_LOT = 64
_AHEAD_SECONDS = 0.024
"""That a program has to do, so that it need not wait while this one writes to the disk."""
_LOTS_AT_ONCE = 3
"""At most; and two, however long they take, until the round nears its end."""
_KEPT_BYTES = 256 << 20
"""Of data that a program keeps from round to round; what is above is sent again."""


class WorkerHandle:
    """A program of the pool, as the engine sees it, and whose data it has."""

    def __init__(self) -> None:
        self.program = Program(_PROGRAM, "workers", _LOTS_AT_ONCE)
        self._met = False
        self._kept: set[DeviceId] = set()
        self._bytes = 0
        self._version: Hashable = None

    @property
    def is_there(self) -> bool:
        """Whether the program has come so far that it can train."""
        if not self._met and self.program.is_ready:
            self.meet()
        return self._met

    def room(self, at_once: int) -> int:
        """Return how many lots it can be given, where it may have so many."""
        return at_once - self.program.works if self.is_there else 0

    def meet(self) -> None:
        """Wait until the program is there."""
        self.program.receive()
        self._met = True

    def lot(
        self, devices: Sequence[DeviceId], lookup: DatasetLookup, task: RoundTask | None
    ) -> DeviceBatch:
        """Return a lot with the data that the program does not have."""
        forgets = lookup.version != self._version
        if forgets:
            self._kept, self._bytes, self._version = set(), 0, lookup.version
        data = {device: lookup.data(device) for device in devices if device not in self._kept}
        keeps = self._bytes < _KEPT_BYTES
        if keeps:
            self._kept.update(data)
            self._bytes += sum(found.inputs.nbytes for found in data.values() if found)
        remembered = [(device, lookup.memory(device)) for device in devices]
        return DeviceBatch(remembered, data, task, keeps, forgets)


class WorkerPool:
    """The programs of a run."""

    def __init__(self, place: CohortResources, size: int) -> None:
        """Start them; raise `EngineError` where devices are not trained on the processor."""
        import torch  # noqa: PLC0415 - needs torch

        where = torch_device(place.trainers.device)
        if where != "cpu":
            raise EngineError(
                f"engine.workers: {size} beside a GPU, where devices are trained ({where}); set "
                "engine.device to 'cpu', or leave workers out"
            )
        self.place = place
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)
        self.handles = [WorkerHandle() for _ in range(size)]
        self.seconds = _LOT_SECONDS
        """That a device took in the newest lot."""
        self.telling = _Pace()
        """Of what this process does with an answer: rules, ledger, disk."""
        known = registry.METHODS, tuple(method_folders)
        for handle in self.handles:
            handle.program.send(encode_work(Setting(place, *known)))

    def wait(self) -> None:
        """Wait until all of them are there; raise `EngineError` if one is not."""
        for handle in self.handles:
            if not handle.is_there:
                handle.meet()

    def close(self) -> None:
        """End them."""
        import torch  # noqa: PLC0415 - needs torch

        for handle in self.handles:
            handle.program.close()
        torch.set_num_threads(self._threads)


class AnsweredByWorkers:
    """Trains with a pool of workers; an `Answering`."""

    def __init__(
        self, task: RoundTask, lookup: DatasetLookup, pool: WorkerPool, stopwatch: Stopwatch
    ) -> None:
        self._task = task
        self._lookup = lookup
        self._stopwatch = stopwatch
        self._pool = pool
        self._adding = Adding(task, pool.place, stopwatch)
        self._busy: set[WorkerHandle] = set()
        """Those that know the task, and have added answers."""
        self._waiting: deque[DeviceId] = deque()
        self._lots: deque[_Given | Sequence[Done]] = deque()
        """In the order of the cohort: what was given to others, and what was done here."""

    def begin(self, devices: Sequence[DeviceId]) -> None:
        """Take the devices in, and give the programs the first of them."""
        self._waiting.extend(devices)
        self._deal()

    def answers(self) -> Iterator[Sequence[Done]]:
        """Yield what comes of the devices, lot by lot."""
        while True:
            self._deal()
            if not self._is_ready() and self._helps():
                self._lots.append(self._done_here(self._lot()))
            elif self._lots:
                lot, began = self._next(), time.perf_counter()
                yield lot
                self._pool.telling.took(time.perf_counter() - began, len(lot))
            else:
                return

    def total(self) -> Summing:
        """Return the sum of what was added here and by the programs."""
        for handle in self._busy:
            handle.program.send(encode_work(AskSum()))
        for handle in self._busy:
            partial = _received(handle.program)
            assert isinstance(partial, Partial)
            self._adding.total.join(partial)
        self._busy.clear()
        return self._adding.total

    def _helps(self) -> bool:
        """Whether this process should train, too: not if it has more to tell than others to do."""
        there = sum(handle.is_there for handle in self._pool.handles)
        if not (self._waiting and there):
            return bool(self._waiting)
        given = sum(len(lot.devices) for lot in self._lots if isinstance(lot, _Given))
        done = sum(len(lot) for lot in self._lots if not isinstance(lot, _Given))
        left = len(self._waiting) + given
        return left * self._pool.seconds / there > (left + done) * self._pool.telling.mean

    def _deal(self) -> None:
        """Give programs that have time something to do, each in its turn."""
        at_once = self._at_once()
        room = (
            {handle: handle.room(at_once) for handle in self._pool.handles} if self._waiting else {}
        )
        for turn in range(at_once):
            for handle, lots in room.items():
                if turn < lots and (devices := self._lot()):
                    self._give(handle, devices)

    def _give(self, handle: WorkerHandle, devices: Sequence[DeviceId]) -> None:
        task = None if handle in self._busy else self._task
        handle.program.send(encode_work(handle.lot(devices, self._lookup, task)))
        self._busy.add(handle)
        self._lots.append(_Given(handle.program, devices))

    def _at_once(self) -> int:
        """Return how many lots a program may have; few, where the last one would be waited for."""
        if len(self._waiting) <= 2 * (1 + len(self._pool.handles)):
            return 1
        ahead = int(_AHEAD_SECONDS / max(self._pool.seconds, _LOT_SECONDS))
        return min(_LOTS_AT_ONCE, max(2, ahead))

    def _lot(self) -> list[DeviceId]:
        """Take the next lot; towards the end they are smaller, so that all end together."""
        left, seconds = len(self._waiting), self._pool.seconds
        share = left // (2 * _LOTS_AT_ONCE * len(self._pool.handles))
        least, most = int(_LEAST_SECONDS / seconds), int(_LOT_SECONDS / seconds)
        size = max(1, min(_LARGEST_LOT, most, max(least, share)))
        return [self._waiting.popleft() for _ in range(min(size, left))]

    def _done_here(self, devices: Sequence[DeviceId]) -> Sequence[Done]:
        began = time.perf_counter()
        with self._stopwatch.phase("training"):
            done = self._adding.carry_out(map(self._lookup.member, devices))
        self._pool.seconds = (time.perf_counter() - began) / len(devices)
        return done

    def _is_ready(self) -> bool:
        if not self._lots:
            return False
        lot = self._lots[0]
        return not isinstance(lot, _Given) or lot.program.is_ready

    def _next(self) -> Sequence[Done]:
        lot = self._lots.popleft()
        if not isinstance(lot, _Given):
            return lot
        with self._stopwatch.phase("workers"):
            carried = _received(lot.program, lot.devices)
        assert isinstance(carried, Carried)
        self._pool.seconds = carried.seconds / len(lot.devices)
        return carried.done


class _Pace:
    """The mean of what something took."""

    def __init__(self) -> None:
        self.mean = 0.0
        self._seconds = 0.0
        self._number = 0

    def took(self, seconds: float, number: int) -> None:
        """Note the seconds that so many took."""
        self._seconds += seconds
        self._number += number
        self.mean = self._seconds / self._number


class _Given(NamedTuple):
    """A lot that a program has."""

    program: Program
    devices: Sequence[DeviceId]


def _received(program: Program, devices: Sequence[DeviceId] = ()) -> Result:
    """Return what came of a program's oldest work; raise the `EngineError` that it met."""
    result = decode_result(program.receive(), devices)
    if isinstance(result, Failed):
        raise EngineError(result.text)
    return result
