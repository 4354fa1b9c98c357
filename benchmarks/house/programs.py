"""Places where programs are put together."""

from __future__ import annotations

import ast

from benchmarks.house.source import File, Source

PARTS = {"coordinator": ("Shell", "Engine"), "device_agent": ("AgentShell",)}
"""By room the classes whose making is that of a program: the shell, and the core on its ledger."""


def assemblies(source: Source) -> list[str]:
    """Return the modules that put a program together: make its shell, or open its core."""
    return sorted(
        file.module
        for file in source.files.values()
        if any(name in file.words for names in PARTS.values() for name in names)
        and _made(source, file)
    )


def _made(source: Source, file: File) -> bool:
    parts = {
        name for target, name in source.imports(file) if name in PARTS.get(target.split(".")[0], ())
    }
    return any(
        isinstance(node, ast.Call) and ast.unparse(node.func).removesuffix(".open") in parts
        for node in file.nodes
    )
