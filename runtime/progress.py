"""Work under way: what it is at, and when it last got on.

A job is told to hang by what it does not get on with, never by how long it takes: a folder of a
million files takes long, and a file on a share that is gone never comes. Whatever may not return
says before it begins what it is at (`working_at`); its thread has bound its `JobProgress`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from os import PathLike, fspath

HANGS_SECONDS = 60.0
"""Without a step, after which work is told to hang."""
LONG_SECONDS = 60.0
"""After which work is told though it gets on."""


@dataclass(frozen=True)
class UnderWay:
    """A job, by the clock of its `JobProgress`."""

    job: str
    began: float
    at: str = ""
    """What it does now; empty before its first step."""
    moved: float = 0.0
    """When it began that."""


class JobProgress:
    """The job of one thread of `program`, which any thread may look at."""

    def __init__(self, program: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._program = program
        self._clock = clock
        self._now: UnderWay | None = None
        self._processor: int | None = None
        self._spent = 0.0

    @contextmanager
    def working(self, job: str, *, by_processor: bool = False) -> Iterator[None]:
        """Do a job on this thread.

        With `by_processor` it also gets on while its thread uses processor time, for work whose
        steps are not told.
        """
        began = self._clock()
        self._spent = 0.0
        ident = threading.get_ident()
        self._processor = time.pthread_getcpuclockid(ident) if by_processor else None
        self._now = UnderWay(job, began, moved=began)
        bound = _bound.set(self)
        try:
            yield
        finally:
            _bound.reset(bound)
            self._now = self._processor = None

    def step(self, at: str) -> None:
        """Note what the job does from here on."""
        now = self._now
        if now is not None:
            self._now = replace(now, at=at, moved=self._clock())

    def hangs(self) -> str:
        """Return which job has not got on for a minute, and what it is at; empty if none."""
        now = self._now
        if now is None:
            return ""
        still = self._clock() - now.moved
        if self._uses_processor() or still < HANGS_SECONDS:
            return ""
        where = f" at {now.at}" if now.at else ""
        return (
            f"{now.job} does not get on{where}: look whether its disk or share answers, then "
            f"restart the {self._program}"
        )

    def describe(self, seconds: float = LONG_SECONDS) -> str:
        """Return which job has taken more than so long, and what it is at; empty if none."""
        now = self._now
        if now is None or self._clock() - now.began < seconds:
            return ""
        where = f", at {now.at}" if now.at else ""
        return f"{now.job} for {(self._clock() - now.began) / 60:.0f} min{where}"

    def _uses_processor(self) -> bool:
        """Note the processor time of the job's thread; return whether it has grown."""
        if self._processor is None:
            return False
        try:
            spent = time.clock_gettime(self._processor)
        except OSError:
            return False  # the thread has ended meanwhile
        grown, self._spent = spent - self._spent, spent
        if grown > 0:
            now = self._now
            self.step("" if now is None else now.at)
        return grown > 0


_bound: ContextVar[JobProgress | None] = ContextVar("progress", default=None)


def working_at(what: str | PathLike[str]) -> None:
    """Note a step of the job of this thread, before what may not return; nothing without a job."""
    progress = _bound.get()
    if progress is not None:
        progress.step(fspath(what))
