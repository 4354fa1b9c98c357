"""Classes for whoever asks: a table for SQL, and what the command line shows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from sqlite_utils import Database

from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.projections import Projection
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.topics.classes.entries import ClassMerged, ClassNamed, ClassRenamed
from fleetledger.schemas.shown import Column


def _class_named(db: Database, entry: Entry) -> None:
    row = {"name": entry.body["name"], "class_index": entry.body["index"], "meaning": None}
    db.table("class").insert(row, replace=True)


def _class_renamed(db: Database, entry: Entry) -> None:
    old, new = entry.body["old"], entry.body["new"]
    index = db.table("class").get(old)["class_index"]
    db.table("class").insert({"name": new, "class_index": index, "meaning": None}, replace=True)
    db.table("class").update(old, {"class_index": None, "meaning": new})


def _class_merged(db: Database, entry: Entry) -> None:
    change = {"class_index": None, "meaning": entry.body["target"]}
    db.table("class").update(entry.body["source"], change)


CLASS = Projection(
    "class",
    {"name": str, "class_index": int, "meaning": str},
    ("name",),
    {
        ClassNamed.kind: _class_named,
        ClassRenamed.kind: _class_renamed,
        ClassMerged.kind: _class_merged,
    },
)


@dataclass(frozen=True)
class ClassRow:
    """A registered class."""

    index: Annotated[int, Column("index")]
    name: Annotated[str, Column("name")]
    aliases: Annotated[tuple[str, ...], Column("other names", ", ".join)]
    samples: Annotated[int, Column("samples")]


def classes(home: Path) -> list[ClassRow]:
    """Return the registered classes in the order of their indices."""
    with ledger_of(home) as ledger:
        rows = list(ledger.db.query("SELECT name, class_index, meaning FROM class"))
        counted = ledger.db.execute(
            "SELECT name, sum(c.samples) FROM contribution_class c"
            " JOIN contribution USING (idx) WHERE state = 'held' GROUP BY name"
        )
        samples: dict[str, int] = dict(counted.fetchall())
    meanings = {row["name"]: row["meaning"] for row in rows}
    aliases: dict[str, list[str]] = {}
    for name in meanings:
        aliases.setdefault(_meant(meanings, name), []).append(name)
    found = [
        ClassRow(
            row["class_index"],
            row["name"],
            tuple(sorted(set(aliases[row["name"]]) - {row["name"]})),
            sum(samples.get(name, 0) for name in aliases[row["name"]]),
        )
        for row in rows
        if row["meaning"] is None
    ]
    return sorted(found, key=lambda row: row.index)


def _meant(meanings: dict[str, str | None], name: str) -> str:
    while (meaning := meanings[name]) is not None:
        name = meaning
    return name
