"""Answers are packed as they would travel, hashed, and not kept; on other cores where there are.

Programs beside the engine do that. Small lots, and those for which no program has time, are packed
here.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, cast

from schemas.envelope import INLINE_LIMIT
from schemas.offers import Offer
from schemas.tensors import compressed
from schemas.values import Digest
from simulator.engines.inprocess.light.programs import Program

_PROGRAM = "simulator.engines.inprocess.light.packing_program"
LOTS_AT_ONCE = 2
"""That a program has."""
_SMALL_BYTES = 1 << 18
"""Up to here a lot is packed before a program has heard of it."""
_MOST_PROGRAMS = 4
"""What one process trains keeps no more of them busy."""


class Packed(NamedTuple):
    """What is said of a payload."""

    digest: Digest
    size: int

    @property
    def offer(self) -> Offer | None:
        """What a message says of a payload that is too large to be attached.

        Nobody asks for its blocks, and the ledger does not name their list: it is not hashed, and
        the digest of the whole stands in its place, which is as long.
        """
        if self.size <= INLINE_LIMIT:
            return None
        return Offer(digest=self.digest, size=self.size, list_digest=self.digest)


class Packer:
    """Packs lots of answers; what comes of them is given back in the order of the lots."""

    def __init__(self) -> None:
        self._wanted = min(_MOST_PROGRAMS, len(os.sched_getaffinity(0)) - 1)
        self._programs: list[Program] = []
        self._lots: deque[list[Packed] | Program] = deque()

    @property
    def is_ready(self) -> bool:
        """Whether `take` need not wait."""
        lot = self._lots[0]
        return not isinstance(lot, Program) or lot.is_ready

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
        if not isinstance(lot, Program):
            return lot
        return [read_packed(item) for item in json.loads(lot.receive())]

    def close(self) -> None:
        """End the programs."""
        for program in self._programs:
            program.close()
        self._programs = []

    def _free(self) -> Program | None:
        if not self._programs:
            self._programs = [
                Program(_PROGRAM, "packing", LOTS_AT_ONCE) for _ in range(self._wanted)
            ]
        return next((program for program in self._programs if program.has_time), None)


def packed(body: bytes) -> Packed:
    """Pack an answer, and hash it."""
    payload = compressed(body)
    return Packed(Digest.of(payload), len(payload))


def told(packed: Packed) -> list[object]:
    """Return JSON values of what is said of a payload."""
    return list(packed)


def read_packed(values: Sequence[object]) -> Packed:
    """Return what `told` gave."""
    digest, size = values
    return Packed(Digest.known(cast(str, digest)), cast(int, size))
