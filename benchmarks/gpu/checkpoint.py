"""The file of results: written anew after each entry, and read by the run that goes on.

An entry is there once: measured again only where it failed, or where it was of another size. A
file of another machine, device or scale is refused, since its entries could not be compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


class CheckpointError(ValueError):
    """A file of results that this run cannot go on with."""


@dataclass
class Checkpoint:
    """Results by name of their entry, and the file that holds them."""

    path: Path
    about: Mapping[str, Any]
    """What all entries have in common: machine, device, scale."""
    entries: dict[str, Entry] = field(default_factory=dict)

    @classmethod
    def opened(cls, path: Path, about: Mapping[str, Any]) -> Checkpoint:
        """Return the results that are in the file, none where there is none.

        Raises `CheckpointError` for a file of something else.
        """
        if not path.exists():
            return cls(path, about)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            before, entries = dict(found["about"]), dict(found["entries"])
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{path}: holds no results of this command ({error}); give another --out"
            ) from error
        then, now = _flat(before), _flat(about)
        for name in sorted({*then, *now}):
            if then.get(name) != now.get(name):
                raise CheckpointError(
                    f"{path}: {name} was {then.get(name)!r} and is {now.get(name)!r} here; "
                    "give another --out, or remove the file"
                )
        return cls(path, about, entries)

    def has(self, name: str, work: Mapping[str, Any]) -> bool:
        """Return whether the entry is there, of such work, at its end, and did not fail."""
        entry = self.entries.get(name)
        if entry is None or entry["work"] != work:
            return False
        return "failed" not in entry and "unfinished" not in entry

    def put(self, name: str, entry: Entry) -> None:
        """Keep an entry: in one step, so that whoever is cut off leaves a whole file."""
        self.entries[name] = entry
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"about": dict(self.about), "entries": self.entries}, indent=1)
        beside = self.path.with_name(self.path.name + ".new")
        beside.write_text(text + "\n", encoding="utf-8")
        beside.replace(self.path)


def _flat(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is in mappings within, such as the machine's, beside the rest."""
    flat: dict[str, Any] = {}
    for name, value in about.items():
        flat |= value if isinstance(value, Mapping) else {name: value}
    return flat
