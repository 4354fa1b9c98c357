"""What a device remembers between rounds: its looks, its classes, and which old model is its own.

A file with one tensor, `old-model` (n,), the bytes of the old model's file where the coordinator
does not serve it to everybody, else none; its metadata hold everything else. No picture and no mask
is remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from pydantic import Field

from fleetledger.learning.numerics.conformal import BINS
from fleetledger.methods.errors import MethodError
from fleetledger.methods.fbl.assignment import OLD_MODEL
from fleetledger.methods.fbl.detection import MOST_CHECKS, NoveltyHistory
from fleetledger.methods.training.kept_files import read_kept
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.rounds import MAX_HEAD_CLASSES, Observation
from fleetledger.schemas.tensors import Expected, UpTo, encode_tensors
from fleetledger.schemas.values import ClassName, Digest

MOST_BYTES = 1 << 29
"""Of an old model; ResNet-101 with DeepLab's decoder has half of it."""
_HEADER_BYTES = 1 << 22
_BYTES = Expected("uint8", (UpTo(MOST_BYTES),))

Names = tuple[ClassName, ...]


class _Facts(Strict):
    """The metadata of the file."""

    round: int = Field(ge=0, lt=2**31)
    observation: Observation | None
    tasks: int = Field(ge=0, lt=2**31)
    stage: int = Field(ge=0, lt=2**31)
    fleet_stage: int = Field(ge=0, lt=2**31)
    rows: Names = Field(max_length=MAX_HEAD_CLASSES)
    history: tuple[float, ...] = Field(max_length=MOST_CHECKS)
    levels: tuple[int, ...] = Field(default=(), max_length=BINS)
    seen: Names = Field(max_length=MAX_HEAD_CLASSES)
    epochs: int = Field(ge=0, lt=2**31)
    old: Digest | None


@dataclass(frozen=True)
class Memory:
    """What is known before the first round is nothing."""

    round: int = 0
    """The round of the last look."""
    observation: Observation | None = None
    """What that look found."""
    looks: NoveltyHistory = field(default_factory=NoveltyHistory)
    seen: frozenset[ClassName] = frozenset()
    """Classes that the device's current data have shown."""
    epochs: int = 0
    """Local epochs since the last transition."""
    old: Digest | None = None
    """The old model: the fleet's model when the device noticed its task."""
    kept: bytes | None = None
    """Its file, where the coordinator does not serve it."""

    def observed_in(self, number: int) -> Observation | None:
        """Return what the look of a round found; None where there was none."""
        return self.observation if self.round == number else None

    @property
    def stored(self) -> int:
        """Number of exemplars: no picture is remembered."""
        return 0

    def renamed(self, aliases: Mapping[ClassName, ClassName]) -> Memory:
        """Return the memory under the names that classes have now."""
        rows = tuple(dict.fromkeys(aliases.get(name, name) for name in self.looks.rows))
        return replace(
            self,
            looks=replace(self.looks, rows=rows),
            seen=frozenset(aliases.get(name, name) for name in self.seen),
        )

    def write(self) -> bytes:
        """Return the memory as bytes."""
        looks = self.looks
        facts = _Facts(
            round=self.round,
            observation=self.observation,
            tasks=looks.tasks,
            stage=looks.stage,
            fleet_stage=looks.fleet_stage,
            rows=looks.rows,
            history=looks.history,
            levels=looks.levels,
            seen=tuple(sorted(self.seen)),
            epochs=self.epochs,
            old=self.old,
        )
        kept = np.frombuffer(self.kept or b"", np.uint8)
        return encode_tensors({OLD_MODEL: kept}, facts.model_dump(mode="json"))


def read_memory(data: bytes | None) -> Memory:
    """Return a memory; the empty one for None. Raises `MethodError` for another file."""
    if data is None:
        return Memory()
    facts, tensors = read_kept(
        "memory", data, {OLD_MODEL: _BYTES}, _Facts, MOST_BYTES + _HEADER_BYTES
    )
    kept = tensors[OLD_MODEL].tobytes() or None
    if kept is not None and Digest.of(kept) != facts.old:
        raise MethodError(
            "memory: old-model is not the file whose digest stands beside it; remove the memory, "
            "and the device begins anew"
        )
    return Memory(
        round=facts.round,
        observation=facts.observation,
        looks=NoveltyHistory(
            facts.tasks, facts.stage, facts.fleet_stage, facts.rows, facts.history, facts.levels
        ),
        seen=frozenset(facts.seen),
        epochs=facts.epochs,
        old=facts.old,
        kept=kept,
    )
