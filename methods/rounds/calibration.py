"""Which samples correct a head after a stage, and which are held out of training for it.

    bias    of each class's exemplars the last tenth, at least one of two; of each new class as many
            as of an old one on average (BiC splits 9 to 1, and balances what it holds out)
    refit   exemplars, and as many of each new class: m = |M| over all classes of the device

What is chosen of new samples depends on their digests alone: it is the same in all of a stage's
rounds. Without exemplars nothing is held out, and the head is corrected by nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from fleetledger.methods.rounds.assignment import CALIBRATE, OLD_MODEL, RoundsAssignment
from fleetledger.methods.rounds.memory import Memory
from fleetledger.methods.training.exchange import FitInstruction, LocalData
from fleetledger.schemas.values import ClassName

_HELD = 10
"""One in so many exemplars is held out."""


def rows_of(
    assignment: RoundsAssignment,
    instruction: FitInstruction,
    data: LocalData,
    new: Sequence[int],
    memory: Memory,
) -> list[int]:
    """Return the rows that a phase looks at, ascending."""
    fresh = set(new)
    old = _old_rows(data, fresh, memory)
    known = {*fresh, *(row for rows in old.values() for row in rows)}
    calibrates = instruction.round.phase == CALIBRATE
    kind = assignment.settings.calibration
    if kind == "refit" and calibrates:
        classes = len({*memory.exemplars, *memory.task})
        each = max(1, assignment.settings.exemplars_of_each(classes))
        return sorted({*_cut(old, each), *_cut(_by_digest(data, fresh), each)})
    if kind == "bias" and OLD_MODEL in instruction.extras:
        held = _held_out(data, old, fresh)
        return sorted(held if calibrates else known - held)
    return sorted(known)


def _old_rows(data: LocalData, new: set[int], memory: Memory) -> dict[ClassName, list[int]]:
    """Return the rows of exemplars that are not new again, by class, the best first."""
    places = {digest: row for row, digest in enumerate(data.digests)}
    found = {
        name: [places[digest] for digest in digests if digest in places]
        for name, digests in memory.exemplars.items()
    }
    return {name: [row for row in rows if row not in new] for name, rows in found.items()}


def _held_out(data: LocalData, old: dict[ClassName, list[int]], new: set[int]) -> set[int]:
    counts = {name: max(1, len(rows) // _HELD) for name, rows in old.items() if len(rows) > 1}
    if not counts:
        return set()
    each = max(1, round(sum(counts.values()) / len(counts)))
    held = {row for name, count in counts.items() for row in old[name][-count:]}
    for rows in _by_digest(data, new).values():
        held.update(rows[: min(each, len(rows) // 2)])
    return held


def _by_digest(data: LocalData, rows: Iterable[int]) -> dict[ClassName, list[int]]:
    """Return rows by class, in the order of their digests."""
    found: dict[ClassName, list[int]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: str(data.digests[row])):
        found[data.class_names[row]].append(row)
    return found


def _cut(lists: dict[ClassName, list[int]], each: int) -> list[int]:
    return [row for rows in lists.values() for row in rows[:each]]
