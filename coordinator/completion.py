"""Names that the shell completes: devices, versions, classes, tags, rollouts, stages of a home.

They are read from the ledger without anything else of the coordinator, and without a word
where there is no ledger or it cannot be read now.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import typer

from fleetledger.coordinator.paths import DEFAULT_HOME, ledger_path

Complete = Callable[[typer.Context, str], list[str]]
MOST = 500
"""Names that are offered; of a large fleet a few letters choose."""
_BUSY_SECONDS = 0.2

_DEVICES = (
    "SELECT device FROM (SELECT json_extract(body, '$.device') AS device, kind, max(idx) FROM entry"
    " WHERE kind IN ('device.admitted', 'device.retired') GROUP BY 1)"
    " WHERE kind = 'device.admitted' ORDER BY 1"
)
_VERSIONS = (
    "SELECT json_extract(body, '$.version') FROM entry"
    " WHERE kind IN ('model.solved', 'model.imported') ORDER BY idx DESC"
)
_CLASSES = (
    "SELECT coalesce(json_extract(body, '$.name'), json_extract(body, '$.new')) FROM entry "
    "WHERE kind IN ('class.named', 'class.renamed') GROUP BY 1 ORDER BY min(idx)"
)
_TAGS = "FROM entry, json_each(body, '$.tags') WHERE kind IN ('device.born', 'device.tagged')"
_TAG_NAMES = f"SELECT DISTINCT key {_TAGS} ORDER BY key"
_TAG_VALUES = f"SELECT DISTINCT key || '=' || value {_TAGS} AND value != '' ORDER BY key, value"
_ROLLOUTS = (
    "SELECT json_extract(body, '$.rollout') FROM entry WHERE kind = 'rollout.planned' "
    "ORDER BY idx DESC"
)
_STAGES = (
    "SELECT json_extract(body, '$.stage') || '/' FROM entry WHERE kind = 'stage.opened' "
    "ORDER BY idx DESC"
)


def _named(*queries: str) -> Complete:
    """Return what completes the names that queries find in the home of the command line."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        given = context.params.get("home") or DEFAULT_HOME
        found = (name for query in queries for name in _names(Path(str(given)), query))
        return [name for name in found if name.startswith(incomplete)][:MOST]

    return complete


def _names(home: Path, query: str) -> list[str]:
    path = ledger_path(home)
    if not path.is_file():
        return []
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS)) as database:
            return [str(name) for (name,) in database.execute(query)]
    except sqlite3.Error:
        return []


devices = _named(_DEVICES)
versions = _named(_VERSIONS)
classes = _named(_CLASSES)
tags = _named(_TAG_NAMES, _TAG_VALUES)
rollouts = _named(_ROLLOUTS)
stages = _named(_STAGES)
devices_and_versions = _named(_DEVICES, _VERSIONS)
devices_and_tags = _named(_DEVICES, _TAG_VALUES)
