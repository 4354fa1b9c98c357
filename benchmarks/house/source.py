"""The product's source: its files, and what they import."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class File:
    """A file of the product."""

    module: str
    """Such as `coordinator.core.core`; of a package the package's name."""
    text: str

    @cached_property
    def words(self) -> frozenset[str]:
        """All words of the text, those of comments and docstrings among them."""
        return frozenset(_WORD.findall(self.text))

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the syntax tree."""
        return tuple(ast.walk(ast.parse(self.text)))

    @property
    def lines(self) -> int:
        """Lines of the file."""
        return self.text.count("\n")

    @cached_property
    def classes(self) -> tuple[ast.ClassDef, ...]:
        """The classes that it defines."""
        return tuple(node for node in self.nodes if isinstance(node, ast.ClassDef))


@dataclass(frozen=True)
class Source:
    """The files of a checkout that belong to the product, by module: no tests, no benchmarks."""

    files: Mapping[str, File]
    root: Path

    @classmethod
    def read(cls, root: Path) -> Source:
        """Read a checkout: all packages at its top but tests and benchmarks, and the door."""
        paths = [root / "fleetledger.py", *sorted((root / "src" / "fleetledger").glob("*.py"))]
        for package in sorted(root.glob("*/__init__.py")):
            if package.parent.name not in ("tests", "benchmarks"):
                paths += sorted(package.parent.rglob("*.py"))
        found = {}
        for path in filter(Path.is_file, paths):
            parts = (
                path.relative_to(root).with_suffix("").parts[path.is_relative_to(root / "src") :]
            )
            module = ".".join(part for part in parts if part != "__init__")
            found[module] = File(module, path.read_text(encoding="utf-8"))
        return cls(found, root)

    def room(self, name: str) -> list[File]:
        """Return the files of one package."""
        return [file for file in self.files.values() if file.module.split(".")[0] == name]

    def imports(self, file: File) -> Iterator[tuple[str, str]]:
        """Return what a file imports from the product: the module, and the name out of it or ''.

        Imports for the type checker and within functions are imports too.
        """
        for node in file.nodes:
            if not isinstance(node, ast.ImportFrom) or node.module is None or node.level:
                continue
            module = node.module.removeprefix("fleetledger.")
            for alias in node.names:
                whole = f"{module}.{alias.name}"
                if whole in self.files:
                    yield whole, ""
                elif module in self.files:
                    yield module, alias.name
