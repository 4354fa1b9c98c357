"""Answers are packed as they would travel, hashed, and not kept; on other cores where there are.

Programs of their own do that, since threads would wait for the interpreter after every answer. Lots
of answers reach them through files that are in memory, and what is said of each comes back through
a pipe. Small lots, and those for which no program has time, are packed here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe
from typing import IO, NamedTuple, cast

from schemas.envelope import INLINE_LIMIT
from schemas.offers import Offer
from schemas.tensors import compressed
from schemas.values import Digest
from simulator.errors import EngineError
from transport.block_source import BlockSource

LOTS_AT_ONCE = 2
"""That a program has: it packs one, and need not wait for the next."""
_SMALL_BYTES = 1 << 18
"""Up to here a lot is packed before a program has heard of it."""
_MOST_PROGRAMS = 4
"""What one process trains keeps no more of them busy."""


class Packed(NamedTuple):
    """What is said of a payload."""

    digest: Digest
    size: int
    offer: Offer | None
    """Of a payload that is too large to be attached."""


class Packer:
    """Packs lots of answers; what comes of them is given back in the order of the lots."""

    def __init__(self) -> None:
        self._wanted = min(_MOST_PROGRAMS, len(os.sched_getaffinity(0)) - 1)
        self._programs: list[_Program] = []
        self._lots: deque[list[Packed] | _Program] = deque()

    @property
    def is_ready(self) -> bool:
        """Whether `take` need not wait."""
        lot = self._lots[0]
        return not isinstance(lot, _Program) or lot.is_ready

    def pack(self, bodies: Sequence[bytes]) -> None:
        """Pack a lot, or have it packed."""
        program = self._free() if sum(map(len, bodies)) > _SMALL_BYTES else None
        if program is None:
            self._lots.append([packed(body) for body in bodies])
        else:
            program.send(bodies)
            self._lots.append(program)

    def take(self) -> list[Packed]:
        """Return what came of the oldest lot; raise `EngineError` where its program has ended."""
        lot = self._lots.popleft()
        return lot.receive() if isinstance(lot, _Program) else lot

    def close(self) -> None:
        """End the programs."""
        for program in self._programs:
            program.close()
        self._programs = []

    def _free(self) -> _Program | None:
        if not self._programs:
            self._programs = [_Program() for _ in range(self._wanted)]
        return next((program for program in self._programs if program.has_time), None)


class _Program:
    """A program that packs, and the files through which it gets its lots, in turns."""

    def __init__(self) -> None:
        self._files = [_file_in_memory() for _ in range(LOTS_AT_ONCE)]
        self._sent = 0
        self._packs = 0
        self._done: deque[bytes] = deque()
        self._pipe, other = Pipe()
        self._process = subprocess.Popen(  # noqa: S603 - our own program, no shell
            [
                *(sys.executable, "-m", "simulator.engines.inprocess.light.packing_program"),
                str(other.fileno()),
            ],
            stdin=subprocess.DEVNULL,
            pass_fds=[other.fileno(), *(file.fileno() for file in self._files)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},  # our own modules
        )
        other.close()

    @property
    def has_time(self) -> bool:
        """Whether it can be sent a lot."""
        self._look()
        return self._packs < LOTS_AT_ONCE

    @property
    def is_ready(self) -> bool:
        """Whether its oldest lot is packed."""
        self._look()
        return bool(self._done)

    def send(self, bodies: Sequence[bytes]) -> None:
        """Hand a lot over."""
        file = self._files[self._sent % LOTS_AT_ONCE]
        file.seek(0)
        for body in bodies:
            file.write(body)
        self._sent += 1
        self._packs += 1
        with suppress(BrokenPipeError):  # told when the lot is taken
            lot = json.dumps([file.fileno(), [len(body) for body in bodies]])
            self._pipe.send_bytes(lot.encode())

    def receive(self) -> list[Packed]:
        """Wait for what came of the oldest lot that was not received."""
        if not self._done:
            self._hear()
        return [read_packed(item) for item in json.loads(self._done.popleft())]

    def close(self) -> None:
        """End the program."""
        self._pipe.close()
        self._process.wait()
        for file in self._files:
            file.close()

    def _look(self) -> None:
        while self._packs and self._pipe.poll():
            self._hear()

    def _hear(self) -> None:
        try:
            self._done.append(self._pipe.recv_bytes())
        except (EOFError, ConnectionResetError):
            raise EngineError(
                f"packing: a program of this run has ended with status {self._process.wait()}; "
                "begin the run again, it goes on where it was"
            ) from None
        self._packs -= 1


def packed(body: bytes) -> Packed:
    """Pack an answer, and hash it."""
    payload = compressed(body)
    if len(payload) <= INLINE_LIMIT:
        return Packed(Digest.of(payload), len(payload), None)
    offer = BlockSource(payload).offer
    return Packed(offer.digest, len(payload), offer)


def told(packed: Packed) -> list[object]:
    """Return JSON values of what is said of a payload."""
    offer = packed.offer
    return [packed.digest, packed.size, None if offer is None else offer.model_dump(mode="json")]


def read_packed(values: list[object]) -> Packed:
    """Return what `told` gave."""
    digest, size, offer = values
    return Packed(
        Digest.known(cast(str, digest)),
        cast(int, size),
        None if offer is None else Offer.model_validate(offer),
    )


def _file_in_memory() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("packing"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)
