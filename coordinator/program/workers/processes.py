"""Starts the intake workers, keeps them going, and carries what they and the coordinator say."""

from __future__ import annotations

import logging
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from multiprocessing.process import BaseProcess
from queue import Empty, Full, Queue

from fleetledger.coordinator.program.workers import frames
from fleetledger.coordinator.program.workers.worker import WorkerPlan, work
from fleetledger.runtime.log_lines import about
from fleetledger.runtime.problems import PATIENCE_SECONDS, OpenProblem
from fleetledger.runtime.progress import HANGS_SECONDS
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.backoff import Backoff

log = logging.getLogger("coordinator.intake")

_WAITING = 1000
"""Messages that wait for the coordinator; where there are more, workers wait."""
_STOP_SECONDS = 10.0
_STABLE_SECONDS = 10.0
"""A worker that ran for so long is replaced at once."""


@dataclass(eq=False)
class IntakeProcess:
    """One process, from its start to its end; what is said to a dead one is lost."""

    process: BaseProcess
    pipe: Pipe
    knows: dict[DeviceId, VerifyKey] = field(default_factory=dict)
    """Keys that it was told."""
    began: float = field(default_factory=time.monotonic)
    listened: float | None = None
    """Since when nothing more of it was heard; None while what it said is handed on, or where it
    has not spoken yet."""
    away: str = ""
    """Why the broker deals no messages out to it, by its own word."""
    hears: bool = False
    """Whether it has said that the broker does."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def hangs(self) -> bool:
        """Return whether nothing was heard of it for too long."""
        if self.listened is None:
            return False
        return time.monotonic() - self.listened >= HANGS_SECONDS

    def send(self, word: frames.ToWorker) -> None:
        """Say something.

        A worker that reads nothing blocks nobody: it is told of no more than it has handed over,
        and that fits the pipe.
        """
        with self._lock:
            try:
                self.pipe.send_bytes(frames.told(word))
            except OSError:
                log.debug("worker %s is gone", self.process.pid)


@dataclass(frozen=True)
class Handed:
    """A message, and the worker that has it in hand."""

    worker: IntakeProcess
    message: frames.FromWorker


class IntakeWorkers:
    """So many workers; each that ends is replaced."""

    def __init__(self, plans: Sequence[WorkerPlan], wake: Callable[[], None]) -> None:
        self._plans = plans
        self._wake = wake
        self._handed: Queue[Handed] = Queue(_WAITING)
        self._workers: dict[int, IntakeProcess] = {}
        self._checked_by: frames.CheckedBy | None = None
        self._keys: dict[DeviceId, VerifyKey] = {}
        self._ended: dict[int, str] = {}
        """Workers that ended and have not run for long since, with how they ended."""
        self._hear = False
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._keep, args=(plan,), name=f"intake-{plan.number}")
            for plan in plans
        ]

    @property
    def processes(self) -> tuple[int, ...]:
        """The process numbers of those that run."""
        with self._lock:
            return tuple(
                pid for worker in self._workers.values() if (pid := worker.process.pid) is not None
            )

    @property
    def hear(self) -> bool:
        """Whether the broker deals out messages to one of them at least."""
        return self._hear

    def start(self) -> None:
        """Start all of them."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Have all of them end."""
        self._stopping.set()
        with self._lock:
            running = list(self._workers.values())
        for worker in running:
            worker.process.terminate()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def next(self) -> Handed | None:
        """Return what one of them has handed over; None where nothing waits."""
        try:
            return self._handed.get_nowait()
        except Empty:
            return None

    def check_by(self, lineage: frames.CheckedBy) -> None:
        """Have all of them check payloads by these settings, also those that start later."""
        with self._lock:
            self._checked_by = lineage
            for worker in self._workers.values():
                worker.send(lineage)

    def know(self, keys: Mapping[DeviceId, VerifyKey]) -> None:
        """Have all that start from now on know these keys."""
        with self._lock:
            self._keys.update(keys)

    def teach(self, worker: IntakeProcess, device: DeviceId, key: VerifyKey) -> None:
        """Tell a worker the key of a device, if it does not know it, and all that start later."""
        if worker.knows.get(device) != key:
            worker.knows[device] = key
            self.know({device: key})
            worker.send(frames.DeviceKey(device, key))

    def problems(self) -> Iterator[OpenProblem]:
        """Yield what keeps workers from their share; end those that hang, so that others begin."""
        with self._lock:
            workers, ended = dict(self._workers), dict(self._ended)
        for number, text in ended.items():
            yield OpenProblem("intake", text, True, PATIENCE_SECONDS, f"ended {number}")
        for number, worker in workers.items():
            if worker.process.exitcode is not None:
                continue
            if worker.away:
                text = f"intake worker {number} has no connection to the broker: {worker.away}"
                yield OpenProblem("intake", text, True, PATIENCE_SECONDS, f"away {number}")
            if worker.hangs():
                worker.process.kill()
                yield OpenProblem(
                    "intake",
                    f"intake worker {number} (process {worker.process.pid}) has not got on for a "
                    "minute; it is ended, another one begins, and devices send again what it had",
                    hinders=True,
                    key=f"hangs {number}",
                )

    def _keep(self, plan: WorkerPlan) -> None:
        """Have one worker run until `stop` (a thread of its own)."""
        backoff = Backoff(0.1, 30.0)
        while not self._stopping.is_set():
            began = time.monotonic()
            worker = self._begin(plan)
            self._listen(worker)
            worker.process.join(_STOP_SECONDS)
            if time.monotonic() - began > _STABLE_SECONDS:
                backoff.reset()
            if not self._stopping.is_set():
                wait = backoff.next()
                with self._lock:
                    self._ended[plan.number] = (
                        f"intake worker {plan.number} does not stay: it ended with exit code "
                        f"{worker.process.exitcode}; see the coordinator's log for why"
                    )
                said = about("intake.worker_ended", worker=plan.number)
                log.warning(
                    "intake worker %d ended (exit code %s); another one begins in %.1f s, and "
                    "devices send again what it had in hand",
                    plan.number,
                    worker.process.exitcode,
                    wait,
                    extra=said,
                )
                self._stopping.wait(wait)

    def _begin(self, plan: WorkerPlan) -> IntakeProcess:
        spawning = multiprocessing.get_context("spawn")
        ours, theirs = spawning.Pipe()
        with self._lock:
            keys, method = dict(self._keys), self._checked_by
        # What a large fleet's worker has to know would block the pipe while it starts.
        process = spawning.Process(
            target=work,
            args=(plan, theirs, keys, method),
            name=f"intake-{plan.number}",
            daemon=True,
        )
        process.start()
        theirs.close()  # else its end would not be seen
        worker = IntakeProcess(process, ours, keys)
        with self._lock:
            self._workers[plan.number] = worker
            if self._checked_by is not None and self._checked_by != method:
                worker.send(self._checked_by)
        if self._stopping.is_set():
            process.terminate()
        return worker

    def _listen(self, worker: IntakeProcess) -> None:
        try:
            while True:
                word = frames.read_frame(worker.pipe.recv_bytes(frames.MAX_FRAME_BYTES))
                worker.listened = None
                if isinstance(word, frames.WorkerTurn):
                    self._note_turn(worker, word)
                else:
                    self._hand_over(Handed(worker, word))
                worker.listened = time.monotonic()
        except (EOFError, OSError):
            worker.pipe.close()
        finally:
            self._note(worker, hears=False)

    def _note(self, worker: IntakeProcess, *, hears: bool) -> None:
        with self._lock:
            worker.hears = hears
            before, self._hear = self._hear, any(one.hears for one in self._workers.values())
        if before != self._hear:
            self._wake()

    def _note_turn(self, worker: IntakeProcess, turn: frames.WorkerTurn) -> None:
        worker.away = turn.away
        self._note(worker, hears=not turn.away)
        if time.monotonic() - worker.began > _STABLE_SECONDS:
            with self._lock:
                numbers = [number for number, one in self._workers.items() if one is worker]
                for number in numbers:
                    self._ended.pop(number, None)

    def _hand_over(self, handed: Handed) -> None:
        while not self._stopping.is_set():
            try:
                self._handed.put(handed, timeout=_STOP_SECONDS)
            except Full:
                continue  # the coordinator is slower than its workers, and they wait
            self._wake()
            return
