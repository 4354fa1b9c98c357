"""Values by name, from inside and outside: networks, data sets, methods and the rest.

A `Registry` is the one table of its kind. It begins with our own values and takes more by two
doors: a decorator of `fleetledger`, in a program that is running, and an entry point of an
installed distribution, which every program finds. What came from outside says where from
(`Registry.origin`), so that a device can be told what to install.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Generic, TypeVar, cast

from fleetledger.runtime.errors import FleetledgerError, cut, shorten

T_co = TypeVar("T_co", covariant=True)

MODULES_VARIABLE = "FLEETLEDGER_MODULES"
"""Python files, or `folder:module`, joined by commas: a program imports them before it looks for a
name that it does not know. Those whose decorators ran are handed to children by it."""
_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_MAIN = "__fleetledger_main__"
"""What a program is called where a child imports it, so that what it does as `__main__` rests."""
_IMPORTING = [False]
"""Whether a module that `MODULES_VARIABLE` names is being imported just now."""
_SOURCES: dict[str, None] = {}
"""Names of the modules whose decorators ran in this program, in their order."""


class RegistryError(FleetledgerError):
    """A value from outside cannot be had under its name."""


@dataclass(frozen=True)
class Origin:
    """Where a value from outside comes from."""

    distribution: str
    """Name of the installed distribution, or of the module where a decorator stands."""
    version: str
    """Empty where there is none: a module that is not installed."""
    digest: str
    """SHA-256 over names and contents of its Python files; empty where none can be read."""

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}".rstrip()


class Registry(Mapping[str, T_co], Generic[T_co]):
    """A table of one kind of value: ours, decorated ones, and those of entry points."""

    def __init__(
        self, noun: str, group: str, take: Callable[[str, object], T_co] | None = None
    ) -> None:
        """Begin without values, for entry points of the `group`.

        `take` makes the value of a name and of what another registered, or raises `RegistryError`;
        left out, values are registered as they are.
        """
        self.noun, self.group = noun, group
        self._take = take
        self._own: dict[str, T_co] = {}
        self._added: dict[str, tuple[T_co, str]] = {}
        """Value, and name of the module that it came from."""

    def own(self, values: Mapping[str, T_co]) -> Registry[T_co]:
        """Take values of ours, and return the table."""
        self._own |= values
        return self

    def add(self, name: str, value: object, module: str | None = None) -> None:
        """Take a value of the program that runs; `RegistryError` for a name that is ours, or none.

        `module` is the one that adds it, if that is not where it is defined. A name may be taken
        again, as when a cell of a notebook runs twice.
        """
        module = module or getattr(value, "__module__", None) or "__main__"
        self._keep(name, value, module)
        _SOURCES[module] = None

    def origin(self, name: str) -> Origin | None:
        """Return where a value comes from, None for our own; `KeyError` without it.

        Nothing of a distribution is imported for it.
        """
        if name in self._own:
            return None
        if name not in self._added:
            load_modules()
        point = _points(self.group).get(name)
        if name in self._added and (point is None or point.module != self._added[name][1]):
            return _origin(self._added[name][1])
        return _origin_of(_points(self.group)[name])

    def __getitem__(self, name: str) -> T_co:
        """Return a value; `KeyError` without it, `RegistryError` if it cannot be imported."""
        if name in self._own:
            return self._own[name]
        if name not in self._added:
            load_modules()
        if name not in self._added:
            point = _points(self.group)[name]
            self._keep(name, self._loaded(point), point.module)
        return self._added[name][0]

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a name; no distribution is imported for it."""
        if name in self._own or name in self._added:
            return True
        load_modules()
        return name in self._added or name in _points(self.group)

    def __iter__(self) -> Iterator[str]:
        """Go through all names, ours first."""
        load_modules()
        return iter({**self._own, **self._added, **_points(self.group)})

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _loaded(self, point: metadata.EntryPoint) -> object:
        try:
            return point.load()
        except Exception as error:
            raise RegistryError(
                f"{self.noun}: {point.name!r} is {point.value!r} of {_origin_of(point)}, which "
                f"cannot be imported: {type(error).__name__}: {cut(str(error), 200)}; mend or "
                "uninstall it"
            ) from error

    def _keep(self, name: str, value: object, module: str) -> None:
        if name in self._own:
            raise RegistryError(f"{self.noun}: {name!r} is one of fleetledger's; give another name")
        if not _NAME.fullmatch(name):
            raise RegistryError(
                f"{self.noun}: {shorten(name)} is no name; give up to 64 of a-z, 0-9, '-', '_' and "
                "'.', a letter first"
            )
        made = cast("T_co", value) if self._take is None else self._take(name, value)
        self._added[name] = made, module


def modules_for_children() -> dict[str, str]:
    """Return the variables by which a child knows what decorators added here; none without any.

    What was typed at a prompt lies in no file, and stays here.
    """
    found = dict.fromkeys(_carried())
    for module in _SOURCES:
        loaded = sys.modules.get(module)
        file = getattr(loaded, "__file__", None)
        if file is not None and module != _MAIN:
            path = Path(file).resolve()
            spec = getattr(loaded, "__spec__", None)  # of the program that runs only by `-m`
            name = module if spec is None else spec.name
            depth = name.count(".") + (path.name == "__init__.py")
            found[str(path) if name == "__main__" else f"{path.parents[depth]}:{name}"] = None
    return {MODULES_VARIABLE: ",".join(found)} if found else {}


def origins(*groups: str) -> frozenset[Origin]:
    """Return where values of these groups come from, and what decorators added here.

    No distribution is imported for it; `RegistryError` as `load_modules` raises it.
    """
    load_modules()
    points = (point for group in groups for point in _points(group).values())
    return frozenset((*map(_origin_of, points), *map(_origin, _SOURCES)))


def load_modules() -> None:
    """Import what `MODULES_VARIABLE` names, once; `RegistryError` for what cannot be imported."""
    for module in _carried():
        _import(module)


def is_being_imported() -> bool:
    """Whether the program that called is being imported by a child, for its decorators alone."""
    return _IMPORTING[0]


def _carried() -> list[str]:
    return [each for each in os.environ.get(MODULES_VARIABLE, "").split(",") if each]


@cache
def _import(module: str) -> None:
    folder, _, name = module.rpartition(":")
    _IMPORTING[0] = True
    try:
        if folder:
            if folder not in sys.path:
                sys.path.append(folder)
            importlib.import_module(name)
        else:
            _run(Path(module))
    except Exception as error:
        raise RegistryError(
            f"{MODULES_VARIABLE}: {module} cannot be imported: {type(error).__name__}: "
            f"{cut(str(error), 200)}; mend it, or leave it out"
        ) from error
    finally:
        _IMPORTING[0] = False


def _run(file: Path) -> None:
    """Import a program under another name than `__main__`, as `multiprocessing` does."""
    running = getattr(sys.modules["__main__"], "__file__", None)
    if running is not None and Path(running).resolve() == file.resolve():
        return  # it is the program that runs
    spec = importlib.util.spec_from_file_location(_MAIN, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    sys.modules[_MAIN] = module
    spec.loader.exec_module(module)


@cache
def _points(group: str) -> Mapping[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group=group)}


def _origin_of(point: metadata.EntryPoint) -> Origin:
    """Return where an entry point comes from, though nothing of it is imported."""
    if point.dist is None:
        return _origin(point.module)
    return _installed(point.module.partition(".")[0], point.dist.name, point.dist.version)


@cache
def _origin(module: str) -> Origin:
    """Return where a module that was imported comes from."""
    top = module.partition(".")[0]
    names = metadata.packages_distributions().get(top, ())
    if names:
        return _installed(top, names[0], metadata.version(names[0]))
    file = _file(module)
    return Origin(Path(file or module).name, "", _digest(file))


@cache
def _installed(top: str, distribution: str, version: str) -> Origin:
    return Origin(distribution, version, _digest(_file(top)))


def _file(module: str) -> str | None:
    """Return the file of a module that was imported, or that a top-level name would import."""
    found = sys.modules.get(module)
    if found is not None:
        return getattr(found, "__file__", None)
    spec = importlib.util.find_spec(module)
    return None if spec is None else spec.origin


def _digest(file: str | None) -> str:
    """Return the digest of a package's Python files, or of the one of a module."""
    path = Path(file or "")
    if not path.is_file():
        return ""
    files = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    of_all = hashlib.sha256()
    for each in files:
        name = each.relative_to(path.parent).as_posix()
        of_all.update(f"{name}\n{hashlib.sha256(each.read_bytes()).hexdigest()}\n".encode())
    return of_all.hexdigest()
