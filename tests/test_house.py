"""What the house may hold: figures of each room that only fall.

A change that adds a capability may raise a ceiling; its commit says the price. Whoever makes a
room smaller lowers them: `python -m tests.test_house` prints the table as it is.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest

from tests.rooms import ROOMS, ROOT, product_trees

SMALL = 40
ROUNDED = 50
"""Ceilings of lines are multiples of it, so that a mended line is not a ceiling to change."""


class Room(NamedTuple):
    """Figures of one room's Python."""

    lines: int
    import_share: float
    """Lines of imports, in percent of all."""
    names: float
    """Imported names in 100 lines."""
    small_files: int
    """Files below 40 lines."""
    used_once: int
    """Private functions that their file calls in one place."""


CEILINGS: dict[str, Room] = {
    "coordinator": Room(55200, 9.1, 11.8, 54, 877),
    "device_agent": Room(24250, 10.8, 13.2, 26, 341),
    "export": Room(7400, 10.3, 12.9, 6, 106),
    "learning": Room(19800, 7.9, 9.4, 27, 231),
    "methods": Room(19100, 11.9, 14.8, 36, 157),
    "runtime": Room(3450, 7.9, 9.6, 14, 42),
    "schemas": Room(6850, 7.8, 11.1, 4, 65),
    "simulator": Room(34850, 11.5, 13.9, 47, 528),
    "transport": Room(8050, 7.9, 9.4, 7, 108),
}


def imports_of(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node


def used_once(tree: ast.Module, text: str) -> int:
    """Count private functions and methods whose name stands in one more place."""
    found = Counter(re.findall(r"\b_[a-z]\w*", text))
    return sum(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("_")
        and not node.name.startswith("__")
        and found[node.name] == 2
        for node in ast.walk(tree)
    )


@cache
def measured(room: str) -> Room:
    lines = imported = names = small = once = 0
    for path in sorted((ROOT / room).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree, count = product_trees()[path], text.count("\n")
        lines += count
        small += count < SMALL
        once += used_once(tree, text)
        for node in imports_of(tree):
            imported += (node.end_lineno or node.lineno) - node.lineno + 1
            names += len(node.names)
    return Room(lines, 100 * imported / lines, 100 * names / lines, small, once)


def test_every_room_has_its_ceiling() -> None:
    assert set(CEILINGS) == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_grows(room: str) -> None:
    found, ceiling = measured(room), CEILINGS[room]
    over = [
        f"{name}: {now:.6g}, at most {most}"
        for name, now, most in zip(Room._fields, found, ceiling, strict=True)
        if now > most
    ]
    assert not over, f"{room} grew; say the price in the commit and in CEILINGS"


@pytest.mark.parametrize("room", ROOMS)
def test_a_ceiling_follows_what_falls(room: str) -> None:
    found, ceiling = measured(room), CEILINGS[room]
    assert found.lines > ceiling.lines - 10 * ROUNDED, f"{room} has shrunk: lower its ceiling"


def main() -> None:
    """Print the table as it is."""
    for room in ROOMS:
        found = measured(room)
        lines = math.ceil(found.lines / ROUNDED) * ROUNDED
        share, names = (math.ceil(10 * each) / 10 for each in (found.import_share, found.names))
        ceiling = Room(lines, share, names, found.small_files, found.used_once)
        print(f'    "{room}": Room{tuple(ceiling)},')  # noqa: T201


if __name__ == "__main__":
    main()
