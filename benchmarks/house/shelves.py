"""The shelves of the coordinator, and imports that run back up between them.

Shared things stand below entries and states, these below rules, these below what people and
programs are told, these below the core that puts all together, and that below the shell. What is
imported stands on the same shelf or on one below. Where the import rules of a checkout name the
layers of the coordinator, these are its shelves; where they do not, names tell.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from fnmatch import fnmatch
from typing import Any

from benchmarks.house.source import Source

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_ROOM = "coordinator."
_BY_NAME = (
    ("shell", ("ledger.cli",)),
    ("shared", ("errors", "paths", "settings", "ledger", "ledger.*", "core.entry", "core.rules",
                "core.wording")),
    ("entries and state", ("core.*entries", "core.*records", "core.*transitions", "core.state",
                           "core.registry", "core.live", "core.runs", "core.commands",
                           "core.decision", "core.inputs", "core.requests")),
    ("views", ("*views", "*sentences", "device_evaluation")),
    ("core", ("core", "core.core", "core.due")),
    ("rules", ("core.*",)),
    ("shell", ("*",)),
)  # fmt: skip
"""The first that fits a name, of a checkout without topics."""
_ORDER = ("shared", "entries and state", "rules", "views", "core", "shell")

Height = Callable[[str], "int | None"]
"""How high a module stands; None where nothing is said of it."""


def heights(source: Source) -> Height:
    """Return how high every module of the coordinator stands."""
    layers = _layers(source)
    return _named_height if layers is None else lambda module: _layer_height(layers, module)


def _named_height(module: str) -> int:
    name = module.removeprefix(_ROOM)
    shelf = next(
        shelf for shelf, patterns in _BY_NAME if any(fnmatch(name, each) for each in patterns)
    )
    return _ORDER.index(shelf)


def _layers(source: Source) -> dict[str, int] | None:
    """Return the layers of the coordinator by its import rules, the lowest as 0."""
    text = (source.root / "pyproject.toml").read_text(encoding="utf-8")
    contracts: list[dict[str, Any]] = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    for contract in contracts:
        layers = (layer.replace("fleetledger.", "") for layer in contract.get("layers", ()))
        named = [re.split(r"[ :|]+", layer) for layer in layers]
        if named and all(module.startswith(_ROOM) for layer in named for module in layer):
            return {
                module: place for place, layer in enumerate(reversed(named)) for module in layer
            }
    return None


def _layer_height(layers: dict[str, int], module: str) -> int | None:
    while module not in layers and "." in module:
        module = module.rpartition(".")[0]
    return layers.get(module)


def arrows(source: Source) -> list[tuple[str, str]]:
    """Return all imports within the coordinator: who imports, and what."""
    return sorted(
        {
            (file.module, target)
            for file in source.room("coordinator")
            for target, _ in source.imports(file)
            if target.startswith(_ROOM)
        }
    )


def arrows_up(source: Source) -> list[tuple[str, str]]:
    """Return those that run from a shelf to a higher one."""
    height, found = heights(source), []
    for one, other in arrows(source):
        low, high = height(one), height(other)
        if low is not None and high is not None and high > low:
            found.append((one, other))
    return found
