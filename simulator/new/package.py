"""A package of one's own from a template: its name, its files, where they go.

Templates are files in `templates/<kind>`, and `templates/pyproject.toml.in` for all kinds. In
their names and texts `$name` stands for the name as distribution, entry point and value of a
scenario, `$module` for the Python module, and `$Class` for a class.
"""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any, Literal, get_args

from fleetledger.learning.networks.registry import NETWORKS
from fleetledger.methods.registry import METHODS
from fleetledger.runtime.errors import shorten
from fleetledger.runtime.registry import Registry
from fleetledger.simulator.datasets.loading import DATA_SETS
from fleetledger.simulator.errors import NewPackageError

Kind = Literal["method", "network", "dataset", "app"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TABLES: Mapping[Kind, Registry[Any]] = {
    "method": METHODS,
    "network": NETWORKS,
    "dataset": DATA_SETS,
    "app": DATA_SETS,  # what its camera sees can be simulated
}
TEMPLATES = Path(__file__).parent / "templates"
SUFFIX = ".in"
_NAME = re.compile(r"[a-z]([a-z0-9_-]{0,62}[a-z0-9])?")


@dataclass(frozen=True)
class PackageName:
    """A name that a distribution, a module and a value of a scenario may have."""

    kind: Kind
    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise NewPackageError(
                f"name: {shorten(self.name)} is no name; give up to 64 of a-z, 0-9, '-' and '_', a "
                "letter first and no '-' or '_' last"
            )
        if keyword.iskeyword(self.module) or self.module in sys.stdlib_module_names:
            raise NewPackageError(
                f"name: {self.name!r} is a word of Python or a module that comes with it; give "
                f"another name, such as my-{self.name}"
            )
        if self.name in TABLES[self.kind]:
            raise NewPackageError(
                f"name: {self.name!r} is a {TABLES[self.kind].noun} that is there already; give "
                f"another name, such as my-{self.name}"
            )
        if find_spec(self.module) is not None:
            raise NewPackageError(
                f"name: a module {self.module!r} can be imported here already, and would come in "
                f"the way of this one; give another name, such as my-{self.name}"
            )

    @property
    def module(self) -> str:
        """Its Python module."""
        return self.name.replace("-", "_")

    @property
    def class_name(self) -> str:
        """Its class, where it has one."""
        return "".join(part.capitalize() for part in re.split("[-_]", self.name))


def package_files(name: PackageName) -> dict[str, str]:
    """Return the text of every file of the package, by its path."""
    words = {"name": name.name, "module": name.module, "Class": name.class_name}
    folder = TEMPLATES / name.kind
    words["points"] = _filled((folder / "entry-points.in").read_text(encoding="utf-8"), words)
    found = {
        _filled(path.name.removesuffix(SUFFIX), words): path.read_text(encoding="utf-8")
        for path in sorted([*folder.iterdir(), TEMPLATES / f"pyproject.toml{SUFFIX}"])
        if path.name != "entry-points.in"
    }
    return {path: _filled(text, words) for path, text in found.items()}


def write_package(name: PackageName, folder: Path) -> tuple[Path, ...]:
    """Write the package into a new folder and return its files; raise `NewPackageError`."""
    files = package_files(name)
    try:
        folder.mkdir(parents=True)
        for path, text in files.items():
            (folder / path).write_text(text, encoding="utf-8")
    except FileExistsError as error:
        raise NewPackageError(
            f"out: {folder} is there already, and nothing of it is overwritten; give another "
            "folder (--out), or move it away"
        ) from error
    except OSError as error:
        raise NewPackageError(
            f"out: {folder} cannot be written: {error.strerror}; give another folder (--out)"
        ) from error
    return tuple(folder / path for path in files)


def _filled(text: str, words: Mapping[str, str]) -> str:
    return Template(text).substitute(words)
