"""Programs beside the engine: work reaches them through files in memory, answers through a pipe.

`Program` starts one and gives it work, `serve` is what it does. Threads would wait for the
interpreter, and take turns instead of working at the same time.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO

from simulator.errors import EngineError


class Program:
    """A program, and the files through which it gets its work, in turns."""

    def __init__(self, module: str, name: str, at_once: int) -> None:
        """Start `python -m module`, which serves; `name` says in errors what it is for.

        It can have `at_once` works: it does one, and need not wait for the next.
        """
        self._name = name
        self._files = [_file_in_memory() for _ in range(at_once)]
        self._sent = 0
        self._works = 0
        self._done: deque[bytes] = deque()
        self._pipe, other = Pipe()
        self._poller = select.poll()  # the pipe's own `poll` makes such a thing at every call
        self._poller.register(self._pipe, select.POLLIN)
        self._process = subprocess.Popen(  # noqa: S603 - our own program, no shell
            [sys.executable, "-m", module, str(other.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[other.fileno(), *(file.fileno() for file in self._files)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},  # our own modules
        )
        other.close()

    @property
    def works(self) -> int:
        """Works that it was given and has not done."""
        self._look()
        return self._works

    @property
    def has_time(self) -> bool:
        """Whether it can be given work."""
        return self.works < len(self._files)

    @property
    def is_ready(self) -> bool:
        """Whether the oldest work that was not received is done."""
        self._look()
        return bool(self._done)

    def send(self, parts: Sequence[bytes]) -> None:
        """Hand work over; only to a program that has time."""
        file = self._files[self._sent % len(self._files)]
        file.seek(0)
        for part in parts:
            _write(file, part)
        self._sent += 1
        self._works += 1
        with suppress(BrokenPipeError):  # told when the answer is taken
            work = json.dumps([file.fileno(), [len(part) for part in parts]])
            self._pipe.send_bytes(work.encode())

    def receive(self) -> bytes:
        """Return the answer to the oldest work that was not received; wait for it.

        Raises `EngineError` where the program has ended.
        """
        if not self._done:
            self._hear()
        return self._done.popleft()

    def close(self) -> None:
        """End the program; what it does now, nobody waits for: a training may take minutes."""
        self._process.kill()
        self._pipe.close()
        self._process.wait()
        for file in self._files:
            file.close()

    def _look(self) -> None:
        while self._works and self._poller.poll(0):
            self._hear()

    def _hear(self) -> None:
        try:
            self._done.append(self._pipe.recv_bytes())
        except (EOFError, ConnectionResetError):
            raise EngineError(
                f"{self._name}: a program of this run has ended with status "
                f"{self._process.wait()}; begin the run again, it goes on where it was"
            ) from None
        self._works -= 1


def serve(answer: Callable[[list[bytes]], bytes]) -> None:
    """Answer every work until the pipe ends, whose number is this program's argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever sends the work ends the pipe
    pipe = Connection(int(sys.argv[1]))
    with suppress(EOFError, ConnectionError):
        while True:
            pipe.send_bytes(answer(_parts(*json.loads(pipe.recv_bytes()))))


def _parts(file: int, sizes: list[int]) -> list[bytes]:
    starts = [0, *accumulate(sizes)]
    return [_read(file, *place) for place in zip(sizes, starts, strict=False)]


def _read(file: int, size: int, start: int) -> bytes:
    part = os.pread(file, size, start)
    while len(part) < size:  # a call gives 2 GiB at most
        part += os.pread(file, size - len(part), start + len(part))
    return part


def _write(file: IO[bytes], part: bytes) -> None:
    left = memoryview(part)
    while left:
        left = left[file.write(left) :]


def _file_in_memory() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("work"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)
