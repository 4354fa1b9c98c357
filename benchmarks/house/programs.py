"""How often a change on the device is stated, and where programs are put together."""

from __future__ import annotations

import ast

from benchmarks.house.source import File, Source

_BASE = "Durable"
_CHANGES = "device_agent.core.changes"
PARTS = {"coordinator": ("Shell", "Engine"), "device_agent": ("Agent",)}
"""By room the classes whose making is that of a program: the shell, and the core on its ledger."""


def statements(source: Source) -> dict[str, int]:
    """Return for every durable change on the device how often it says what it makes of records.

    Once where it is defined, and once in every other file that has a function for it alone, or
    looks which change it has (`case X()`).
    """
    device = source.room("device_agent")
    named = [node for file in device if _BASE in file.words for node in file.classes]
    changes = [node.name for node in named if _BASE in map(ast.unparse, node.bases)]
    if not changes:  # before a change said by itself what it makes of records
        changes = [node.name for node in source.files[_CHANGES].classes]
    handled = [_handled(file) for file in device]
    return {name: 1 + sum(name in names for names in handled) for name in changes}


def assemblies(source: Source) -> list[str]:
    """Return the modules that put a program together: make its shell, or open its core."""
    return sorted(
        file.module
        for file in source.files.values()
        if any(name in file.words for names in PARTS.values() for name in names)
        and _made(source, file)
    )


def _handled(file: File) -> set[str]:
    """Return the names of classes of which a file has a parameter, or that it matches on."""
    own = {node.name for node in file.classes}
    named = {
        ast.unparse(node.annotation if isinstance(node, ast.arg) else node.cls)
        for node in file.nodes
        if isinstance(node, ast.MatchClass) or (isinstance(node, ast.arg) and node.annotation)
    }
    return {name.rpartition(".")[2] for name in named} - own


def _made(source: Source, file: File) -> bool:
    parts = {
        name for target, name in source.imports(file) if name in PARTS.get(target.split(".")[0], ())
    }
    return any(
        isinstance(node, ast.Call) and ast.unparse(node.func).removesuffix(".open") in parts
        for node in file.nodes
    )
