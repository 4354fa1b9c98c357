"""The kinds of ledger entry, found in the source by what they are and not by where they stand."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BASE = "EntryBody"


def entry_kinds(root: Path = ROOT) -> dict[str, str]:
    """Return the class of every kind of entry: what derives from `EntryBody` and has a kind."""
    return {
        kind: node.name
        for path in sorted((root / "coordinator").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and _BASE in map(ast.unparse, node.bases)
        for kind in _kinds(node)
    }


def _kinds(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id="kind"), value=ast.Constant(value=str(kind))):
                yield kind
