"""What a device's images are to LGA: current data, exemplars, or neither.

The current data T_l^t are the images of the newest stage that the device has images of; of a class
that returns those that it has not trained before. So a device
without images of the newest classes (Z_o) trains on what it trained on before. Of older stages only
exemplars count.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from fleetledger.methods.errors import MethodError
from fleetledger.methods.lga.memory import Memory
from fleetledger.methods.training.exchange import FitInstruction, LocalData
from fleetledger.methods.training.met_samples import MetSamples, stages_of_rows
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import ClassName


@dataclass(frozen=True)
class Current:
    """A device's current data."""

    rows: tuple[int, ...]
    """Of the local data."""
    names: frozenset[ClassName]
    stage: int
    """The stage in which they are new; 0 without images."""


def stages_of(instruction: FitInstruction) -> dict[ClassName, int]:
    """Return the stage that brought each class; raise `MethodError` where the order lacks it."""
    names, stages = instruction.round.class_names, instruction.class_stages
    if len(stages) != len(names):
        raise MethodError(
            f"class_stages: {len(stages)} for {count_of(len(names), 'class', 'classes')}, and LGA "
            "weighs classes by their stage; update the coordinator"
        )
    return dict(zip(names, stages, strict=True))


def current_of(instruction: FitInstruction, data: LocalData, met: MetSamples) -> Current:
    """Return the current data, with what was trained before; raise `MethodError`."""
    known = stages_of(instruction)
    stages = [
        stage if name in known and stage is not None else -1
        for name, stage in zip(
            data.class_names, stages_of_rows(instruction, data, met), strict=True
        )
    ]
    newest = max(stages, default=0)
    rows = tuple(row for row, stage in enumerate(stages) if stage == newest)
    return Current(rows, frozenset(data.class_names[row] for row in rows), newest)


def rows_by_class(data: LocalData) -> dict[ClassName, list[int]]:
    """Return the rows of each class."""
    rows: dict[ClassName, list[int]] = defaultdict(list)
    for row, name in enumerate(data.class_names):
        rows[name].append(row)
    return dict(rows)


def training_rows(data: LocalData, current: Current, memory: Memory) -> list[int]:
    """Return the current data, then the exemplars; one that was chosen twice comes twice."""
    places = {
        (name, digest): row
        for row, (name, digest) in enumerate(zip(data.class_names, data.digests, strict=True))
    }
    taken = set(current.rows)
    exemplars = [
        places[name, digest]
        for name, digests in sorted(memory.exemplars.items())
        for digest in digests
    ]
    return [*current.rows, *(row for row in exemplars if row not in taken)]
