"""A text by several speakers: speeches with an empty line between them.

    FIRST CITIZEN:
    Before we proceed any further, hear me speak.

    ALL:
    Speak, speak.

A speech begins with its speaker's name and a colon on a line of its own. What a speaker says is all
speeches of that name, joined by newlines; other blocks, and speeches without words, are left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from fleetledger.simulator.errors import DatasetError

MAX_TEXT_BYTES = 1 << 28
_BLOCKS = re.compile(r"\n(?:[ \t]*\n)+")
_NAMED = re.compile(r"([^\n]{1,200}):[ \t]*\n(.*)", re.DOTALL)


def read_speeches(path: Path) -> Mapping[str, str]:
    """Return what every speaker of a UTF-8 file says; raise `DatasetError` with the way out."""
    try:
        if path.stat().st_size > MAX_TEXT_BYTES:
            raise DatasetError(f"{path}: more than {MAX_TEXT_BYTES} bytes; give a part of it")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DatasetError(
            f"{path}: cannot be read: {error.strerror}; give a text file with speeches "
            "(docs/datasets.md)"
        ) from error
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}: not UTF-8 at byte {error.start}; convert it") from error
    found = by_speaker(text)
    if not found:
        raise DatasetError(
            f"{path}: no speeches; give blocks with empty lines between them, each with its "
            "speaker and a colon on its first line (docs/datasets.md)"
        )
    return found


def by_speaker(text: str) -> Mapping[str, str]:
    """Return what each speaker says, in the order in which they first speak."""
    said: dict[str, list[str]] = defaultdict(list)
    for block in _BLOCKS.split(text.strip("\n")):
        named = _NAMED.fullmatch(block)
        if named is not None and named[2].strip():
            said[named[1].strip()].append(named[2])
    return {name: "\n".join(speeches) for name, speeches in said.items()}
