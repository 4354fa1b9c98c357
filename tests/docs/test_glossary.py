"""docs/glossary.md and the code say the same words, and each name has one meaning."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.test_architecture import ROOT, product_files

PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ROOM_OF_TWINS = "methods"
"""Where a name may stand once more: a method's files have the names that every method has, and no
method imports another."""


Named = ast.ClassDef | ast.FunctionDef


@dataclass(frozen=True)
class Definitions:
    """Names of classes and functions in a file: a syntax tree of the whole product, kept, would be
    gone through by every later garbage collection of the process."""

    top: frozenset[str]
    public_classes: tuple[str, ...]


@cache
def definitions_in(path: Path) -> Definitions:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    every = [node for node in ast.walk(tree) if isinstance(node, Named)]
    classes = (node.name for node in every if isinstance(node, ast.ClassDef))
    return Definitions(
        frozenset(node.name for node in tree.body if isinstance(node, Named)),
        tuple(name for name in classes if not name.startswith("_")),
    )


def table(heading: str) -> list[list[str]]:
    """Return the cells of the rows below a heading of the page."""
    section = re.split(rf"^## {heading}$", PAGE, flags=re.MULTILINE)[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in rows[2:]]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


TERMS = [
    (row[0], name)
    for heading in ("The fleet", "Learning", "Messages and models", "The simulator")
    for row in table(heading)
    for name in quoted(row[3])
]


def exists(name: str) -> bool:
    """Whether a dotted name is a package, a module, or a definition at the top of one."""
    path = ROOT.joinpath(*name.split("."))
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    module, _, last = name.rpartition(".")
    file = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    return file.is_file() and last in definitions_in(file).top


@cache
def definitions() -> dict[str, list[str]]:
    """Return where each public class of the product is defined."""
    found = defaultdict(list)
    for path in product_files():
        for name in definitions_in(path).public_classes:
            found[name].append(str(path.relative_to(ROOT)))
    return found


@pytest.mark.parametrize(("word", "name"), TERMS, ids=str)
def test_what_the_page_names_is_in_the_code(word: str, name: str) -> None:
    assert exists(name), f"docs/glossary.md says that {word!r} lives in {name}; there is none"


def test_no_public_class_has_the_name_of_another() -> None:
    twice = {}
    for name, places in definitions().items():
        apart = [place for place in places if not place.startswith(ROOM_OF_TWINS)]
        if len(apart) > 1 or (apart and any(p.startswith("methods/") for p in places)):
            twice[name] = places
    assert not twice, f"give each a name of its own: {twice}"
