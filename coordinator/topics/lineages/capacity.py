"""How many class names a fleet can have: an assignment lists them and has to stay one message.

It names every class that is accepted and those of its stage. Where a network is trained, an order
adds the head's rows, those of its weights and those trained, their stages, and what aliases mean.
"""

from __future__ import annotations

from collections.abc import Iterable

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.topics.lineages.entries import Lineage
from fleetledger.schemas.assignments import MAX_NAME_BYTES
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.envelope import MAX_HEADER_BYTES
from fleetledger.schemas.values import ClassName

_RESERVED = 16 * 1024
"""Bytes of a header for offers, numbers and the envelope."""
_STAGE = 5
"""Bytes of a row's stage: four digits and a comma."""


def check_capacity(
    state: State, new: Iterable[ClassName], stage_names: Iterable[ClassName] = ()
) -> None:
    """Raise `CommandError` where `new` names would not fit beside those that are named.

    `stage_names` are those of the stage, new ones among them.
    """
    assert state.lineages.current is not None
    added = tuple(new)
    plain = sum(len(name.encode("utf-8")) for name in (*added, *state.classes.accepted_names))
    if plain > MAX_NAME_BYTES:
        raise CommandError(
            f"class_names: all names together would take {plain} bytes, an assignment holds "
            f"{MAX_NAME_BYTES}; use shorter names"
        )
    known = (name for name in stage_names if name not in set(added))
    _require(_room(state, state.lineages.current, known) - _cost(state.lineages.current, added))


def check_lineage(state: State, lineage: Lineage) -> None:
    """Raise `CommandError` where the classes that are named would not fit another lineage."""
    _require(_room(state, lineage, _stage_names(state)))


def check_other_name(state: State, name: ClassName) -> None:
    """Raise `CommandError` where another name for a class would not fit."""
    if state.lineages.current is not None:
        taken = _cost(state.lineages.current, (name,))
        _require(_room(state, state.lineages.current, _stage_names(state)) - taken)


def fitting(state: State, names: Iterable[ClassName]) -> list[ClassName]:
    """Return those `names`, new ones all, that fit into one stage; the first ones go first."""
    assert state.lineages.current is not None
    room = _room(state, state.lineages.current, ())
    plain = MAX_NAME_BYTES - sum(len(n.encode("utf-8")) for n in state.classes.accepted_names)
    chosen = []
    for name in names:
        room -= _cost(state.lineages.current, (name,))
        plain -= len(name.encode("utf-8"))
        if min(room, plain) >= 0:
            chosen.append(name)
    return chosen


def _room(state: State, lineage: Lineage, stage_names: Iterable[ClassName]) -> int:
    """Return the bytes left for new classes, beside those that are named and a stage of some."""
    classes = state.classes
    fixed = (lineage.settings, lineage.preprocessing.model_dump(mode="json"))
    used = _RESERVED + sum(len(canonical_json(value)) for value in fixed)
    used += _listed(classes.accepted_names) + _listed(stage_names)
    if lineage.in_rounds:
        used += 2 * _listed(classes.names) + _STAGE * len(classes.names)
        used += _listed(name for pair in classes.aliases.items() for name in pair)
    return MAX_HEADER_BYTES - used


def _stage_names(state: State) -> tuple[ClassName, ...]:
    stage = state.stages.by_number.get(state.stages.current or 0)
    return () if stage is None else stage.class_names


def _cost(lineage: Lineage, names: Iterable[ClassName]) -> int:
    """Return the bytes of new classes in all lists that name them."""
    listed = tuple(names)
    if lineage.in_rounds:
        return 4 * _listed(listed) + _STAGE * len(listed)
    return 2 * _listed(listed)


def _listed(names: Iterable[ClassName]) -> int:
    """Return the bytes of names in a list: quotes and a comma each."""
    return sum(len(canonical_json(name)) + 1 for name in names)


def _require(room: int) -> None:
    if room < 0:
        raise CommandError(
            f"class_names: all names together take {-room} bytes more than an assignment of this "
            "fleet holds; use shorter names, or fewer classes"
        )
