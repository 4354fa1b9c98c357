"""The coordinator's state as one byte string, and again from it.

The state is a fold of the ledger, so that these bytes are worth as much as the program that folds:
`FOLDS_BY` names it. Where the program changed, whoever holds the bytes throws them away.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pydantic

from fleetledger import coordinator, schemas
from fleetledger.coordinator.core.state import KINDS, State
from fleetledger.coordinator.ledger.columns import Columns
from fleetledger.schemas.values import Digest

_FOLDERS = (
    (coordinator, ("core", "ledger", "topics")),
    (schemas, (".",)),
)
"""Where everything stands that the state follows from, beside the entries."""
_READS_ONLY = frozenset(
    (
        "commands",
        "due_times",
        "inputs",
        "queries",
        "requests",
        "rules",
        "state_fold",
        "views",
        "work",
    )
)
"""Names of files in these folders that the state does not import, and that change often."""


def write_state(state: State) -> bytes:
    """Return the one byte string of a state; equal states have equal ones."""
    return columns_of_state().write(state)


def read_state(data: bytes) -> State:
    """Return the state of its bytes; raise `SnapshotError` where they are of none."""
    state = columns_of_state().read(data)
    state.listen()
    return state


@cache
def columns_of_state() -> Columns[State]:
    """Return what writes and reads states; raise `SnapshotError` for a field that it cannot say."""
    return Columns(State, _names_in_hints())


@cache
def folding_program() -> Digest:
    """Return the digest of everything that a state follows from beside the entries.

    With other sources, another Python or another pydantic it is another one.
    """
    hasher = hashlib.sha256(f"{sys.version_info[:2]} {pydantic.VERSION}".encode())
    for path in _sources():
        hasher.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return Digest(hasher.hexdigest())


def _sources() -> Iterator[Path]:
    for package, folders in _FOLDERS:
        (root,) = map(Path, package.__path__)
        for folder in folders:
            found = sorted((root / folder).rglob("*.py"))
            yield from (path for path in found if path.stem not in _READS_ONLY)


def _names_in_hints() -> dict[str, Any]:
    """Return the names of the modules of entries: parts of the state only name their types."""
    modules = (sys.modules[kind.body.__module__] for kind in KINDS.values())
    return {name: value for module in modules for name, value in vars(module).items()}
