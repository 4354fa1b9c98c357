"""The kinds of ledger entry, found by what they are and not by where they stand."""

from __future__ import annotations

import ast
from pathlib import Path

from benchmarks.house.source import Source

ROOT = Path(__file__).parents[2]
_BASE = "EntryBody"


def entry_kinds(source: Source | None = None) -> dict[str, str]:
    """Return the class of every kind of entry: what derives from `EntryBody` and has a kind."""
    source = source or Source.read(ROOT)
    return {
        kind: node.name
        for file in source.room("coordinator")
        if _BASE in file.words
        for node in file.classes
        if _BASE in map(ast.unparse, node.bases)
        for kind in _kinds(node)
    }


def files_naming(source: Source, kind: str, name: str) -> list[str]:
    """Return the modules of the product that name a kind: its class, or its text in quotes."""
    quoted = f'"{kind}"'
    return [
        file.module for file in source.files.values() if name in file.words or quoted in file.text
    ]


def _kinds(node: ast.ClassDef) -> list[str]:
    return [
        statement.value.value
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.target, ast.Name)
        and statement.target.id == "kind"
    ]
