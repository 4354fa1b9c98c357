"""Notes of mirrors in the coordinator's home: how far each has come, and what refuses it.

The program that mirrors writes its note, and the coordinator beside it says what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import Field, ValidationError

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.problems import OpenProblem
from fleetledger.runtime.strict import Strict
from fleetledger.runtime.times import iso_time
from fleetledger.runtime.whole_file import write_whole
from fleetledger.schemas.values import Digest

SILENT_SECONDS = 600.0
"""A mirror that has not looked for so long has ended, or hangs."""
REFUSED_SECONDS = 60.0
_PASSWORD = re.compile(r"//[^/@]*@")
_MAX_NOTE_BYTES = 8192


class MirrorNote(Strict):
    """What the program that mirrors a ledger knows; times in nanoseconds since 1970."""

    place: str = Field(max_length=2000)
    """Without a password."""
    size: int | None = Field(default=None, ge=0)
    """Entries that lie there; None where it could not be seen yet."""
    looked_ns: int = Field(ge=0)
    refused: str | None = Field(default=None, max_length=2000)
    """Why it does not go on; None where it does."""


def place_of(url: str) -> str:
    """Return where a mirror lies, as it may be shown."""
    return _PASSWORD.sub("//", url)


def write_note(home: Path, note: MirrorNote) -> None:
    """Keep a mirror's note in the place of its former one; raise `OSError`."""
    path = _folder(home) / f"{Digest.of(note.place.encode()).short}.json"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_whole(path, note.model_dump_json(exclude_none=True).encode() + b"\n")


def mirror_problems(home: Path, entries: int, time_ns: int) -> Iterator[OpenProblem]:
    """Yield what is wrong with each mirror of a ledger that has so many entries."""
    for path in sorted(_folder(home).glob("*.json")):
        try:
            with path.open("rb") as file:
                note = MirrorNote.model_validate_json(file.read(_MAX_NOTE_BYTES))
        except (OSError, ValidationError):
            text = f"{path}: is no note of a mirror; delete it, and the mirror writes it anew"
            yield OpenProblem("mirror", text, patience=REFUSED_SECONDS, key=path.name)
            continue
        has = (
            "no entry"
            if note.size is None
            else (f"{note.size:,} of {count_of(entries, 'entry', 'entries')}")
        )
        if note.refused is not None:
            text = f"the mirror at {note.place} has {has}: {note.refused}"
            yield OpenProblem("mirror", text, patience=REFUSED_SECONDS, key=path.name)
        elif time_ns - note.looked_ns > SILENT_SECONDS * 1e9:
            text = (
                f"the mirror at {note.place} has {has}; nothing has mirrored there since "
                f"{iso_time(note.looked_ns)}: start `fleetledger ledger mirror {note.place} "
                f"--follow` again, or delete {path} where it is to end"
            )
            yield OpenProblem("mirror", text, key=path.name)


def _folder(home: Path) -> Path:
    return home / "mirrors"
