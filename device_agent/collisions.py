"""Other installed packages that bear the names of ours, so that one is imported for the other.

Needs nothing of ours, so that it can be asked when an import of ours has failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path

from schemas.installing import pip_install

OURS = "fleetledger"
PACKAGES = (
    "coordinator",
    "device_agent",
    "export",
    "learning",
    "methods",
    "schemas",
    "simulator",
    "transport",
)
"""The packages that a distribution of ours brings at the top level."""
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Collision:
    """A name that two packages bear."""

    package: str
    text: str
    way_out: str
    hides_ours: bool
    """Whether the other one is imported in place of ours, or lies over its files."""


def collisions(
    installed: Iterable[Distribution] | None = None, root: Path = ROOT
) -> tuple[Collision, ...]:
    """Return the packages of ours whose names others bear too.

    `root` is the folder that ours lie in; `installed` is by default what this Python sees.
    """
    others = _others(distributions() if installed is None else installed)
    return tuple(
        found
        for package in PACKAGES
        for found in _collisions_of(package, others.get(package, {}), root)
    )


def _collisions_of(package: str, others: dict[str, Path], root: Path) -> Iterator[Collision]:
    imported = _folder_of_import(package)
    hidden = imported not in (None, root)
    for name, folder in others.items():
        worse = folder == root or (hidden and imported == folder)
        text = f"the installed {name!r} brings a package {package!r} too, in {folder}"
        text += ", and that one counts" if worse else "; ours counts, and hides that one"
        again = f"; {pip_install(options='--force-reinstall')}" if folder == root else ""
        yield Collision(package, text, f"pip uninstall {name}{again}; {_ALONE}", worse)
    if imported is not None and hidden and imported not in others.values():
        text = f"{imported / package} is imported in place of ours in {root}"
        way_out = f"rename or remove it, or take {imported} out of PYTHONPATH; {_ALONE}"
        yield Collision(package, text, way_out, hides_ours=True)


_ALONE = "or give fleetledger a virtual environment of its own"


def _others(installed: Iterable[Distribution]) -> dict[str, dict[str, Path]]:
    """Map our packages to the distributions that bring them too, and where each lies."""
    found: dict[str, dict[str, Path]] = {}
    for distribution in installed:
        name = str(distribution.metadata["Name"])
        if name == OURS:
            continue
        for package in _packages(distribution) & set(PACKAGES):
            folder = Path(str(distribution.locate_file(""))).resolve()
            found.setdefault(package, {})[name] = folder
    return found


def _packages(distribution: Distribution) -> set[str]:
    """Return the top-level names: those it declares, else those its files begin with."""
    declared = distribution.read_text("top_level.txt")
    if declared is not None:
        return set(declared.split())
    record = distribution.read_text("RECORD") or ""
    return {line.split("/", 1)[0] for line in record.splitlines() if "/__init__.py," in line}


def _folder_of_import(package: str) -> Path | None:
    """Return the folder that a package is imported from, or None where there is none."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    origin = Path(spec.origin).resolve()
    return origin.parents[1] if origin.name == "__init__.py" else origin.parent
