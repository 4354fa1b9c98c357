"""Answers are packed as they would travel, hashed, and not kept; on other cores where there are.

Programs of their own do that, since threads would wait for the interpreter after every answer. Lots
of answers reach them through files that are in memory, and what is said of each comes back as a
line. A lot that is small, or a machine with one core, needs none.
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
from typing import IO, NamedTuple, cast

from schemas.envelope import INLINE_LIMIT
from schemas.offers import Offer
from schemas.tensors import compressed
from schemas.values import Digest
from simulator.errors import EngineError
from transport.block_source import BlockSource

AHEAD = 2
"""Lots of each program that wait while others are trained."""
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
        self._sent = 0

    @property
    def ahead(self) -> int:
        """How many lots may wait."""
        return AHEAD * max(1, self._wanted)

    def pack(self, bodies: Sequence[bytes]) -> None:
        """Begin to pack a lot; no more than one above `ahead` may wait."""
        if not self._wanted or sum(map(len, bodies)) <= _SMALL_BYTES:
            self._lots.append([packed(body) for body in bodies])
            return
        if not self._programs:
            self._programs = [_Program() for _ in range(self._wanted)]
        program = self._programs[self._sent % self._wanted]
        self._sent += 1
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


class _Program:
    """A program that packs, and the files through which it gets its lots, in turns."""

    def __init__(self) -> None:
        # The one that is sent, those that wait.
        self._files = [_file_in_memory() for _ in range(AHEAD + 1)]
        self._lots = 0
        numbers = [file.fileno() for file in self._files]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "simulator.engines.inprocess.light.packing_program"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=numbers,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},  # our own modules
            start_new_session=True,  # Ctrl-C reaches us alone; it ends when its input does
        )

    def send(self, bodies: Sequence[bytes]) -> None:
        """Hand a lot over."""
        file = self._files[self._lots % len(self._files)]
        self._lots += 1
        file.seek(0)
        for body in bodies:
            file.write(body)
        file.flush()
        line = json.dumps([file.fileno(), [len(body) for body in bodies]])
        with suppress(BrokenPipeError):  # told when the lot is taken
            self._stdin.write(line.encode() + b"\n")
            self._stdin.flush()

    def receive(self) -> list[Packed]:
        """Wait for what came of the oldest lot."""
        line = self._stdout.readline()
        if not line:
            raise EngineError(
                f"packing: a program of this run has ended with status {self._process.wait()}; "
                "begin the run again, it goes on where it was"
            )
        return [read_packed(item) for item in json.loads(line)]

    def close(self) -> None:
        """End the program."""
        with suppress(BrokenPipeError):
            self._stdin.close()
        self._stdout.close()
        self._process.wait()
        for file in self._files:
            file.close()

    @property
    def _stdin(self) -> IO[bytes]:
        return cast(IO[bytes], self._process.stdin)

    @property
    def _stdout(self) -> IO[bytes]:
        return cast(IO[bytes], self._process.stdout)


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
