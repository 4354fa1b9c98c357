"""The coordinator's state as bytes, part by part, and again from them.

The state is a fold of the ledger, so that these bytes are worth as much as the program that folds:
`folding_program` names it. Where the program changed, whoever holds the bytes throws them away.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from threading import RLock
from typing import Any

import pydantic

from fleetledger import coordinator
from fleetledger.coordinator.core.state import KINDS, PARTS, State
from fleetledger.coordinator.errors import SnapshotError
from fleetledger.coordinator.ledger.columns import Parts
from fleetledger.schemas.values import Digest

_IMPORT = re.compile(r"from (fleetledger[\w.]*) import (\([^)]*\)|.*)")


def write_state(state: State) -> dict[str, bytes]:
    """Return the bytes of each part of a state; equal states have equal ones."""
    return parts_of_state().write(state)


def read_state(
    part: Callable[[str], bytes], instead: Callable[[SnapshotError], State] | None = None
) -> State:
    """Return a state whose parts are read from their bytes, each when it is first asked for.

    Where one cannot be read the state becomes the one that `instead` returns; without that, whoever
    asks gets the `SnapshotError`. Threads may ask at the same time.
    """
    return State.unread(_PartsReader(part, instead))


class _PartsReader:
    """Loads the parts of a state."""

    def __init__(
        self, part: Callable[[str], bytes], instead: Callable[[SnapshotError], State] | None
    ) -> None:
        self._part = part
        self._instead = instead
        self._lock = RLock()

    def __call__(self, state: State, name: str) -> object:
        there = vars(state)
        with self._lock:
            try:
                return self._read(there, name)
            except SnapshotError as error:
                if self._instead is None:
                    raise
                other = vars(self._instead(error))
            there.update((part, other[part]) for part in PARTS)  # all, since they share objects
            return there[name]

    def _read(self, there: dict[str, object], name: str) -> object:
        if name not in there:
            data = self._part(name)
            there[name] = parts_of_state().read(name, data, partial(self._read, there))
        return there[name]


@cache
def parts_of_state() -> Parts[State]:
    """Return what writes and reads states; raise `SnapshotError` for a field that it cannot say."""
    return Parts(State, _names_in_hints())


@cache
def folding_program() -> Digest:
    """Return the digest of everything that a state follows from beside the entries.

    That is this module, every module that it imports, and what these import. With another Python or
    another pydantic it is another one.
    """
    hasher = hashlib.sha256(f"{sys.version_info[:2]} {pydantic.VERSION}".encode())
    for name, source in sorted(_sources().items()):
        hasher.update(name.encode() + b"\0" + hashlib.sha256(source).digest())
    return Digest(hasher.hexdigest())


def _sources() -> dict[str, bytes]:
    """Return the source of each module, by its name.

    Imports are read off the sources, since a program imports more than the state needs.
    """
    root = Path(coordinator.__path__[0]).parent
    found: dict[str, bytes] = {}
    face = __name__.partition(".")[0]  # which imports what is asked of it alone
    asked, met = [__name__], {face}
    while asked:
        name = asked.pop()
        if name not in met:
            met.add(name)
            place = root.joinpath(*name.split(".")[1:])
            path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
            if not path.is_file():
                continue  # a name in a package, of no module
            found[name] = path.read_bytes()
            asked.append(name.rpartition(".")[0])
            asked += _imports(root, found[name].decode())
    return found


def _imports(root: Path, source: str) -> Iterator[str]:
    """Yield the names of modules that a source imports, and of what it imports from packages."""
    for module, names in _IMPORT.findall(source):
        yield module
        if root.joinpath(*module.split(".")[1:]).is_dir():
            yield from (f"{module}.{name}" for name in re.findall(r"\w+", names))


def _names_in_hints() -> dict[str, Any]:
    """Return the names of the modules of entries: parts of the state only name their types."""
    modules = (sys.modules[kind.body.__module__] for kind in KINDS.values())
    return {name: value for module in modules for name, value in vars(module).items()}
