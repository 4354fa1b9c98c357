"""Lots of devices are dealt to workers, and what comes of them is handed on in the cohort's order.

Where workers are is the pool's: `processes` of this machine, `threads`, or `ray_cluster`. Payloads
stay where they were made: each worker has a sum of its own, and sums are exact, so at the end of a
round they are joined to what one process would have added.

A worker may end at any moment. Then another gets all lots that it was given in the round, those
that it had answered, too, since its sum is lost with it: they must give the same digests again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

from fleetledger.methods.training.exchange import LocalData, Partial, Summing
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.simulator.engines.inprocess.light.batches import Adding, Done
from fleetledger.simulator.engines.inprocess.light.cohort import CohortResources, DeviceHoldings
from fleetledger.simulator.engines.inprocess.light.holdings import HeldSamples, TrainInputs
from fleetledger.simulator.engines.inprocess.light.task import RoundTask
from fleetledger.simulator.engines.inprocess.light.training_lots import training_lots
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.scenario.sections import EngineSettings
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
"""Workers that may end with the same lot, or at their start, before that is what ends them."""
_START_SECONDS = 300.0
"""Until a worker must be there: other machines import torch, too."""

Result = TypeVar("Result")


class WorkerLostError(Exception):
    """A worker has ended before it gave what it was asked for."""


class LotMember(NamedTuple):
    """A device to be trained, and what it has."""

    device: DeviceId
    samples: HeldSamples | LocalData | None
    """Which of the shared inputs it holds, or its data where they are not shared; None for none."""
    memory: Digest | None
    """Of what it remembers, which lies in the store of memories."""


@dataclass(frozen=True)
class TrainedLot:
    """What came of a lot, and the seconds that it took."""

    done: Sequence[Done]
    seconds: float


@dataclass(frozen=True, eq=False)
class Worker:
    """A `LotTrainer` elsewhere, which does one thing after the other."""

    handle: Any
    """What its pool knows it by."""
    started: Future[str]
    """The machine that it is on, when it has come so far that it can train."""


class WorkerPool(Protocol):
    """A place for workers."""

    @property
    def engine_trains(self) -> bool:
        """Whether the engine's process is to train while nobody else has time."""

    def start(self) -> Worker:
        """Start a worker; nobody waits until it is there."""

    def share(self, value: Any) -> Any:  # noqa: ANN401 - a task, or the inputs of all samples
        """Return what stands for a value in `ask`, and is not sent to each worker again."""

    def ask(self, worker: Worker, method: str, *given: Any) -> Future[Any]:  # noqa: ANN401
        """Have a worker call a method of its `LotTrainer` after what it was asked before."""

    def sums(self, workers: Sequence[Worker]) -> Sequence[Future[Partial]]:
        """Have workers add up what they added in this round; one sum for each machine at least."""

    def result(self, asked: Future[Result]) -> Result:
        """Wait for it; raise `WorkerLostError`, or the `EngineError` that the worker met."""

    def end(self, worker: Worker) -> None:
        """End a worker; what it does now, nobody waits for."""

    def close(self) -> None:
        """Give back what workers shared, when they have ended."""


class LotDealer:
    """The workers of a run, and how long they and the engine take."""

    def __init__(
        self,
        place: CohortResources,
        pool: WorkerPool,
        engine: EngineSettings,
        inputs: TrainInputs | None,
    ) -> None:
        """Start the workers, and have this process compute on one thread, as they do.

        They share the inputs of all training samples, if there are any to share. Where this process
        does not train, they are waited for. Raises `EngineError`.
        """
        import torch  # noqa: PLC0415 - needs torch

        self.place = place
        self.pool = pool
        self._engine = engine
        self.workers: list[Worker] = []
        self.seconds = _LOT_SECONDS
        """That a device took in the newest lot."""
        self.telling = _Pace()
        """Of what this process does with an answer: rules, ledger, disk."""
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            self.inputs = None if inputs is None else pool.share(inputs)
            for _ in range(max(1, engine.workers)):
                self.workers.append(pool.start())
            if not pool.engine_trains:
                self.wait()
        except BaseException:
            self.close()
            raise

    def wait(self) -> None:
        """Wait until all of them are there; raise `EngineError` if one never is.

        It raises one, too, where they are on several machines, and no store is said to reach all.
        """
        machines = {self._started(place) for place in range(len(self.workers))}
        if len(machines) > 1 and self._engine.store is None:
            raise EngineError(
                "engine.store: not given, and the workers are on "
                f"{count_of(len(machines), 'machine')}; give "
                "a URL or a folder that all of them reach, for what devices remember"
            )

    def replace(self, lost: Worker) -> Worker:
        """Start another in the place of a worker that was lost."""
        place = self.workers.index(lost)
        self._start_again(place)
        if not self.pool.engine_trains:
            self._started(place)
        return self.workers[place]

    def lives(self, worker: Worker) -> bool:
        """Return whether a worker still does what it is asked, when it has done the rest."""
        try:
            self.pool.result(self.pool.ask(worker, "ready"))
        except WorkerLostError:
            return False
        return True

    def close(self) -> None:
        """End them."""
        import torch  # noqa: PLC0415 - needs torch

        for worker in self.workers:
            self.pool.end(worker)
        self.pool.close()
        torch.set_num_threads(self._threads)

    def _started(self, place: int) -> str:
        """Wait until a worker is there, or another for one that ends before; return its machine."""
        for _ in range(_MOST_LOSSES):
            started = self.workers[place].started
            if not wait_for([started], _START_SECONDS).done:
                raise EngineError(
                    f"engine.workers: one was not there after {_START_SECONDS:.0f} s; look whether "
                    "there is room for it, on a cluster by `ray status`"
                )
            try:
                return self.pool.result(started)
            except WorkerLostError:
                self._start_again(place)
        raise EngineError(
            f"engine.workers: {_MOST_LOSSES} ended at their start; look whether the memory is "
            "full, on a cluster into the logs of Ray, too"
        )

    def _start_again(self, place: int) -> None:
        self.pool.end(self.workers[place])
        self.workers[place] = self.pool.start()


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
    worker: Worker
    pending: Future[TrainedLot]
    told: list[_Outcome] | None = None
    """What came of them the first time, once that was handed on."""
    is_again: bool = False
    """Whether they are with another worker since then."""
    losses: int = 0

    def take(self, trained: TrainedLot) -> Sequence[Done]:
        """Return what came of it, which is handed on."""
        self.told = list(map(_Outcome.of, trained.done))
        return trained.done

    def given_again(self, worker: Worker, pending: Future[TrainedLot]) -> None:
        """Note that another worker has it; raise `EngineError` where it ended too many."""
        self.losses += 1
        if self.losses >= _MOST_LOSSES:
            names = f"{self.members[0].device} to {self.members[-1].device}"
            raise EngineError(
                f"engine.workers: {count_of(self.losses, 'worker')} ended while they trained "
                f"{names}; look whether the memory is full, and begin the run again: it goes on "
                "where it was"
            )
        self.worker, self.pending, self.is_again = worker, pending, self.told is not None

    def check(self, trained: TrainedLot) -> None:
        """Raise `EngineError` where another worker gives something else than was handed on."""
        for was, done in zip(self.told or (), trained.done, strict=True):
            if _Outcome.of(done) != was:
                raise EngineError(
                    f"engine.workers: {was.device}: another worker trained it to another answer "
                    "than the one that has ended; run with one kind of machine"
                )
        self.is_again = False


class AnsweredByWorkers:
    """Trains with the workers of a run; an `Answering`."""

    def __init__(
        self, task: RoundTask, holdings: DeviceHoldings, dealer: LotDealer, stopwatch: Stopwatch
    ) -> None:
        self._holdings = holdings
        self._stopwatch = stopwatch
        self._dealer = dealer
        self._pool = dealer.pool
        self._task = dealer.pool.share(replace(task))  # without what was worked out of it
        self._adding = Adding(task, dealer.place, stopwatch)
        self._together = training_lots(task, dealer.place.trainers)
        """Devices that nobody may deal apart."""
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
                self._dealer.telling.took(time.perf_counter() - began, len(lot))
            else:
                return

    def total(self) -> Summing:
        """Return the sum of what was added here and by the workers."""
        while self._given:
            try:
                sums = self._sums()
            except WorkerLostError:
                # A sum may be lost with any of those on its machine; where all live, with all.
                there = list(self._given)
                self._replace([one for one in there if not self._dealer.lives(one)] or there)
                continue
            for one in sums:
                self._adding.total.join(one)
            self._given.clear()
        return self._adding.total

    def _sums(self) -> list[Partial]:
        """Return the workers' sums; what was lost with a worker is in them again."""
        for lots in self._given.values():
            for lot in lots:
                if lot.is_again:
                    lot.check(self._pool.result(lot.pending))
        return [self._pool.result(one) for one in self._pool.sums(list(self._given))]

    def _helps(self) -> bool:
        """Whether this process should train, too: not if it has more to tell than others to do."""
        if not (self._waiting and self._pool.engine_trains):
            return False
        there = sum(worker.started.done() for worker in self._dealer.workers)
        if not there:
            return True
        given = sum(len(lot.members) for lot in self._lots if isinstance(lot, _Lot))
        done = sum(len(lot) for lot in self._lots if not isinstance(lot, _Lot))
        left = len(self._waiting) + given
        return left * self._dealer.seconds / there > (left + done) * self._dealer.telling.mean

    def _deal(self) -> None:
        """Give workers that have time something to do, each in its turn."""
        if not self._waiting:
            return
        at_once = self._at_once()
        there = [worker for worker in self._dealer.workers if worker.started.done()]
        room = {worker: at_once - self._open(worker) for worker in there}
        for turn in range(at_once):
            for worker, lots in room.items():
                if turn < lots and (devices := self._next_devices()):
                    self._give(worker, devices)

    def _open(self, worker: Worker) -> int:
        """Return how many lots a worker has to do, or does."""
        lots = self._given.get(worker, ())
        return sum(not lot.pending.done() for lot in lots[-_LOTS_AT_ONCE:])

    def _give(self, worker: Worker, devices: Sequence[DeviceId]) -> None:
        holdings = self._holdings
        members = [LotMember(one, holdings.samples(one), holdings.memory(one)) for one in devices]
        if worker not in self._given:
            self._begin(worker)
        lot = _Lot(members, worker, self._pool.ask(worker, "train", members))
        self._given[worker].append(lot)
        self._lots.append(lot)

    def _begin(self, worker: Worker) -> None:
        """Have a worker begin with the round; what goes wrong, the next lot tells."""
        self._pool.ask(worker, "begin", self._task, self._dealer.inputs)
        self._given[worker] = []

    def _replace(self, lost: Sequence[Worker]) -> None:
        """Give what lost workers had to others that take their places."""
        for one in lost:
            lots, worker = self._given.pop(one), self._dealer.replace(one)
            self._begin(worker)
            self._given[worker] = lots
            for lot in lots:
                lot.given_again(worker, self._pool.ask(worker, "train", lot.members))

    def _at_once(self) -> int:
        """Return how many lots a worker may have; few, where the last one would be waited for."""
        if len(self._waiting) <= 2 * (1 + len(self._dealer.workers)):
            return 1
        ahead = int(_AHEAD_SECONDS / max(self._dealer.seconds, _LOT_SECONDS))
        return min(_LOTS_AT_ONCE, max(2, ahead))

    def _next_devices(self) -> list[DeviceId]:
        """Take the next lot; towards the end they are smaller, so that all end together."""
        left, seconds = len(self._waiting), self._dealer.seconds
        share = left // (2 * _LOTS_AT_ONCE * len(self._dealer.workers))
        least, most = int(_LEAST_SECONDS / seconds), int(_LOT_SECONDS / seconds)
        size = max(1, min(_LARGEST_LOT, most, max(least, share)))
        devices = [self._waiting.popleft() for _ in range(min(size, left))]
        lots = self._together
        while lots is not None and self._waiting:
            if lots.number(self._waiting[0]) != lots.number(devices[-1]):
                break
            devices.append(self._waiting.popleft())
        return devices

    def _done_here(self, devices: Sequence[DeviceId]) -> Sequence[Done]:
        began = time.perf_counter()
        with self._stopwatch.phase("training"):
            done = self._adding.carry_out(map(self._holdings.member, devices))
        self._dealer.seconds = (time.perf_counter() - began) / len(devices)
        return done

    def _is_ready(self) -> bool:
        if not self._lots:
            return False
        lot = self._lots[0]
        return not isinstance(lot, _Lot) or lot.pending.done()

    def _next(self) -> Sequence[Done]:
        lot = self._lots.popleft()
        if not isinstance(lot, _Lot):
            return lot
        while True:
            with self._stopwatch.phase("workers"):
                try:
                    trained = self._pool.result(lot.pending)
                except WorkerLostError:
                    self._replace([lot.worker])
                    continue
            self._dealer.seconds = trained.seconds / len(lot.members)
            return lot.take(trained)
