"""Lots of devices are dealt to workers, and what comes of them is handed on in the cohort's order.

Payloads stay where they were made: each worker has a sum of its own, and sums are exact, so at the
end of a round they are joined to what one process would have added.

A worker may end at any moment. Then another gets all lots that it was given in the round, those
that it had answered, too, since its sum is lost with it: they must give the same digests again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fleetledger.methods.training import Partial, Summing
from fleetledger.schemas.count_words import count_of
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.simulator.engines.inprocess.light.batches import Adding, Done
from fleetledger.simulator.engines.inprocess.light.cohort import CohortResources, DeviceHoldings
from fleetledger.simulator.engines.inprocess.light.task import RoundTask
from fleetledger.simulator.engines.inprocess.light.workers.interface import (
    LotMember,
    Pending,
    TrainedLot,
    Worker,
    WorkerLostError,
    Workers,
)
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.virtual.answers import Declined
from fleetledger.simulator.virtual.stopwatch import Stopwatch

_LOT_SECONDS = 0.008
"""That a lot of devices takes; lots of 3 ms cost 6 % more of the processor."""
_LEAST_SECONDS = 0.001
"""That one takes towards the end of a round."""
_LARGEST_LOT = 64
_AHEAD_SECONDS = 0.024
"""That a worker has to do, so that it need not wait while this process writes to the disk."""
_LOTS_AT_ONCE = 3
"""At most; and two, however long they take, until the round nears its end."""
_MOST_LOSSES = 3
"""Workers that may end with the same lot, before the lot is what ends them."""


class WorkerPool:
    """The workers of a run, and how long they and the engine take."""

    def __init__(self, place: CohortResources, workers: Workers) -> None:
        """Have this process compute on one thread, as workers do: who trains whom is all one."""
        import torch  # noqa: PLC0415 - needs torch

        self.place = place
        self.workers = workers
        self.seconds = _LOT_SECONDS
        """That a device took in the newest lot."""
        self.telling = _Pace()
        """Of what this process does with an answer: rules, ledger, disk."""
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)

    def wait(self) -> None:
        """Wait until all of them are there; raise `EngineError` if one is not."""
        try:
            for worker in self.workers.everybody:
                worker.wait()
        except WorkerLostError as error:
            raise EngineError(f"engine.workers: one has ended at its start: {error}") from error

    def close(self) -> None:
        """End them."""
        import torch  # noqa: PLC0415 - needs torch

        self.workers.close()
        torch.set_num_threads(self._threads)


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


class _Outcome(NamedTuple):
    """What must come of a device again, whoever trains it."""

    device: DeviceId
    payload: Digest | None
    memory: Digest | None

    @classmethod
    def of(cls, done: Done) -> _Outcome:
        if isinstance(done.outcome, Declined):
            return cls(done.device, None, None)
        return cls(done.device, done.outcome.hashed.digest, done.outcome.said.memory)


@dataclass(eq=False)
class _Lot:
    """Devices that a worker was given."""

    members: Sequence[LotMember]
    pending: Pending[TrainedLot]
    told: list[_Outcome] | None = None
    """What came of them the first time, once that was handed on."""
    is_again: bool = False
    """Whether they are with another worker since then."""
    losses: int = 0

    def take(self) -> TrainedLot:
        """Wait for what comes of it, which is handed on."""
        trained = self.pending.result()
        self.told = list(map(_Outcome.of, trained.done))
        return trained

    def given_again(self, pending: Pending[TrainedLot]) -> None:
        """Note that another worker has it; raise `EngineError` where it ended too many."""
        self.losses += 1
        if self.losses >= _MOST_LOSSES:
            names = f"{self.members[0].device} to {self.members[-1].device}"
            raise EngineError(
                f"engine.workers: {count_of(self.losses, 'worker')} ended while they trained "
                f"{names}; look whether the memory is full, and begin the run again: it goes on "
                "where it was"
            )
        self.pending, self.is_again = pending, self.told is not None

    def check(self) -> None:
        """Wait for the same again; raise `EngineError` where something else comes of it."""
        if not self.is_again:
            return
        for was, done in zip(self.told or (), self.pending.result().done, strict=True):
            if _Outcome.of(done) != was:
                raise EngineError(
                    f"engine.workers: {was.device}: another worker trained it to another answer "
                    "than the one that has ended; run with one kind of machine"
                )
        self.is_again = False


class AnsweredByWorkers:
    """Trains with a pool of workers; an `Answering`."""

    def __init__(
        self, task: RoundTask, holdings: DeviceHoldings, pool: WorkerPool, stopwatch: Stopwatch
    ) -> None:
        self._task = task
        self._holdings = holdings
        self._stopwatch = stopwatch
        self._pool = pool
        self._adding = Adding(task, pool.place, stopwatch)
        self._given: dict[Worker, list[_Lot]] = {}
        """All lots of the round, by who has them; nobody else knows the task."""
        self._waiting: deque[DeviceId] = deque()
        self._lots: deque[_Lot | Sequence[Done]] = deque()
        """In the order of the cohort: what was given to others, and what was done here."""

    def begin(self, devices: Sequence[DeviceId]) -> None:
        """Take the devices in, and give the workers the first of them."""
        self._waiting.extend(devices)
        self._deal()

    def answers(self) -> Iterator[Sequence[Done]]:
        """Yield what comes of the devices, lot by lot."""
        while True:
            self._deal()
            if not self._is_ready() and self._helps():
                self._lots.append(self._done_here(self._next_devices()))
            elif self._lots:
                lot, began = self._next(), time.perf_counter()
                yield lot
                self._pool.telling.took(time.perf_counter() - began, len(lot))
            else:
                return

    def total(self) -> Summing:
        """Return the sum of what was added here and by the workers."""
        while self._given:
            try:
                sums = self._sums()
            except WorkerLostError:
                self._replace_lost()
                continue
            for one in sums:
                self._adding.total.join(one)
            self._given.clear()
        return self._adding.total

    def _sums(self) -> list[Partial]:
        """Return the workers' sums; what was lost with a worker is in them again."""
        for lots in self._given.values():
            for lot in lots:
                lot.check()
        return [one.result() for one in self._pool.workers.sums(list(self._given))]

    def _helps(self) -> bool:
        """Whether this process should train, too: not if it has more to tell than others to do."""
        if not (self._waiting and self._pool.workers.engine_trains):
            return False
        there = sum(worker.is_there() for worker in self._pool.workers.everybody)
        if not there:
            return True
        given = sum(len(lot.members) for lot in self._lots if isinstance(lot, _Lot))
        done = sum(len(lot) for lot in self._lots if not isinstance(lot, _Lot))
        left = len(self._waiting) + given
        return left * self._pool.seconds / there > (left + done) * self._pool.telling.mean

    def _deal(self) -> None:
        """Give workers that have time something to do, each in its turn."""
        if not self._waiting:
            return
        everybody, at_once = self._pool.workers.everybody, self._at_once()
        room = {one: at_once - self._open(one) for one in everybody if one.is_there()}
        for turn in range(at_once):
            for worker, lots in room.items():
                if turn < lots and (devices := self._next_devices()):
                    self._give(worker, devices)

    def _open(self, worker: Worker) -> int:
        """Return how many lots a worker has to do, or does."""
        lots = self._given.get(worker, ())
        return sum(not lot.pending.is_ready() for lot in lots[-_LOTS_AT_ONCE:])

    def _give(self, worker: Worker, devices: Sequence[DeviceId]) -> None:
        holdings = self._holdings
        members = [LotMember(one, holdings.samples(one), holdings.memory(one)) for one in devices]
        self._begin(worker)
        lot = _Lot(members, worker.train(members))
        self._given[worker].append(lot)
        self._lots.append(lot)

    def _begin(self, worker: Worker) -> None:
        if worker not in self._given:
            self._pool.workers.begin(worker, self._task)
            self._given[worker] = []

    def _replace_lost(self) -> None:
        """Give what lost workers had to others that take their places."""
        for lost in [one for one in self._given if one.is_lost]:
            lots = self._given.pop(lost)
            worker = self._pool.workers.replace(lost)
            self._begin(worker)
            self._given[worker] = lots
            for lot in lots:
                lot.given_again(worker.train(lot.members))

    def _at_once(self) -> int:
        """Return how many lots a worker may have; few, where the last one would be waited for."""
        if len(self._waiting) <= 2 * (1 + len(self._pool.workers.everybody)):
            return 1
        ahead = int(_AHEAD_SECONDS / max(self._pool.seconds, _LOT_SECONDS))
        return min(_LOTS_AT_ONCE, max(2, ahead))

    def _next_devices(self) -> list[DeviceId]:
        """Take the next lot; towards the end they are smaller, so that all end together."""
        left, seconds = len(self._waiting), self._pool.seconds
        share = left // (2 * _LOTS_AT_ONCE * len(self._pool.workers.everybody))
        least, most = int(_LEAST_SECONDS / seconds), int(_LOT_SECONDS / seconds)
        size = max(1, min(_LARGEST_LOT, most, max(least, share)))
        return [self._waiting.popleft() for _ in range(min(size, left))]

    def _done_here(self, devices: Sequence[DeviceId]) -> Sequence[Done]:
        began = time.perf_counter()
        with self._stopwatch.phase("training"):
            done = self._adding.carry_out(map(self._holdings.member, devices))
        self._pool.seconds = (time.perf_counter() - began) / len(devices)
        return done

    def _is_ready(self) -> bool:
        if not self._lots:
            return False
        lot = self._lots[0]
        return not isinstance(lot, _Lot) or lot.pending.is_ready()

    def _next(self) -> Sequence[Done]:
        lot = self._lots.popleft()
        if not isinstance(lot, _Lot):
            return lot
        while True:
            with self._stopwatch.phase("workers"):
                try:
                    trained = lot.take()
                except WorkerLostError:
                    self._replace_lost()
                    continue
            self._pool.seconds = trained.seconds / len(lot.members)
            return trained.done
