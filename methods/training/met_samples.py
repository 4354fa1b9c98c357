"""Samples that a device has trained, by class, with the stage in which each was new to it.

A class may return in a later stage. What a device trains then as new are the samples of it that it
has not trained in an earlier stage; of those it has the exemplars. In a memory's file a sample is
the first eight bytes of its digest and its stage, 12 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.exchange import FitInstruction, LocalData
from fleetledger.methods.training.kept_files import MOST_EXEMPLARS, Listed
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.tensors import Expected, UpTo
from fleetledger.schemas.values import ClassName, Digest

MET = "met"
"""Name of the tensor in a memory's file."""
_ROW = np.dtype([("sample", "<u8"), ("stage", "<u4")])
MET_ROWS = Expected("uint8", (UpTo(MOST_EXEMPLARS), _ROW.itemsize))
"""What `met` has to be."""


@dataclass(frozen=True)
class MetSamples:
    """What is known before the first round is nothing."""

    classes: Mapping[ClassName, bytes] = field(default_factory=dict)
    """Samples of each class, 12 bytes each: `sample` and `stage`, ascending by sample."""

    def stages(self, names: Sequence[ClassName], digests: Sequence[Digest]) -> list[int]:
        """Return the stage in which each sample was new; 0 where it never was."""
        found = np.zeros(len(names), np.int64)
        for name, places, keys in _by_class(names, digests, self.classes):
            rows = np.frombuffer(self.classes[name], _ROW)
            at = np.minimum(np.searchsorted(rows["sample"], keys), len(rows) - 1)
            found[places] = np.where(rows["sample"][at] == keys, rows["stage"][at], 0)
        return [int(stage) for stage in found]

    def with_samples(
        self, names: Sequence[ClassName], digests: Sequence[Digest], stage: int
    ) -> MetSamples:
        """Return the samples with others that were new in a stage; those that are known stay."""
        classes = dict(self.classes)
        for name, _, keys in _by_class(names, digests, dict.fromkeys(names)):
            added = np.zeros(len(keys), _ROW)
            added["sample"], added["stage"] = keys, stage
            classes[name] = _joined(classes.get(name, b""), added.tobytes())
        return MetSamples(classes)

    def renamed(self, aliases: Mapping[ClassName, ClassName]) -> MetSamples:
        """Return the samples under the names that classes have now."""
        classes: dict[ClassName, bytes] = {}
        for name, rows in self.classes.items():
            now = aliases.get(name, name)
            classes[now] = _joined(classes[now], rows) if now in classes else rows
        return MetSamples(classes)

    def written(self) -> tuple[tuple[Listed, ...], npt.NDArray[np.uint8]]:
        """Return the classes, sorted, and the samples as rows of bytes (n, 12)."""
        ordered, size = sorted(self.classes.items()), _ROW.itemsize
        counts = tuple(Listed(name=name, count=len(rows) // size) for name, rows in ordered)
        whole = b"".join(rows for _, rows in ordered)
        return counts, np.frombuffer(whole, np.uint8).reshape(-1, size)


def met_of(classes: Sequence[Listed], rows: npt.NDArray[Any]) -> MetSamples:
    """Return what `written` gave; raise `MethodError` where classes do not fit rows."""
    held, total = np.ascontiguousarray(rows).tobytes(), sum(item.count for item in classes)
    if len(rows) != total or len({item.name for item in classes}) < len(classes):
        raise MethodError(
            f"memory: {count_of(len(rows), 'sample')} in met, where its "
            f"{count_of(len(classes), 'class', 'classes')}, each named once, have {total}; remove "
            "the file, and the device begins anew"
        )
    ends = np.cumsum([0, *(item.count for item in classes)]) * _ROW.itemsize
    return MetSamples({item.name: held[ends[at] : ends[at + 1]] for at, item in enumerate(classes)})


def stages_of_rows(
    instruction: FitInstruction, data: LocalData, met: MetSamples
) -> list[int | None]:
    """Return the stage in which each row was or is new to this device.

    One that was never trained is new in the order's stage where that is about its class. Else it is
    of the stage that brought its class, None where the order does not tell.
    """
    asked = set(instruction.stage_class_names)
    of_class = dict(zip(instruction.round.class_names, instruction.class_stages, strict=False))
    known = met.stages(data.class_names, data.digests)
    return [
        stage or (instruction.stage if name in asked else of_class.get(name))
        for name, stage in zip(data.class_names, known, strict=True)
    ]


def new_rows(instruction: FitInstruction, data: LocalData, met: MetSamples) -> list[int]:
    """Return the rows of the stage's classes, but for those that were trained in earlier stages."""
    asked = set(instruction.stage_class_names)
    stages = stages_of_rows(instruction, data, met)
    return [
        row
        for row, (name, stage) in enumerate(zip(data.class_names, stages, strict=True))
        if name in asked and stage == instruction.stage
    ]


def met_after(
    instruction: FitInstruction, data: LocalData, met: MetSamples, rows: Sequence[int]
) -> MetSamples:
    """Return the samples with rows that are new in the order's stage."""
    names = [data.class_names[row] for row in rows]
    return met.with_samples(names, [data.digests[row] for row in rows], instruction.stage)


def _by_class(
    names: Sequence[ClassName], digests: Sequence[Digest], wanted: Mapping[ClassName, object]
) -> list[tuple[ClassName, list[int], npt.NDArray[np.uint64]]]:
    """Return places and keys of the samples of each class that is wanted."""
    places: dict[ClassName, list[int]] = {}
    for place, name in enumerate(names):
        if name in wanted:
            places.setdefault(name, []).append(place)
    return [
        (name, held, np.array([int(digests[place][:16], 16) for place in held], np.uint64))
        for name, held in places.items()
    ]


def _joined(rows: bytes, others: bytes) -> bytes:
    """Return both, each sample once, as it is in the first of them."""
    both = np.frombuffer(rows + others, _ROW)
    _, first = np.unique(both["sample"], return_index=True)
    return both[first].tobytes()
