"""The scenarios that ship: TOML files in this folder, known by their names without `.toml`."""

from __future__ import annotations

from importlib.resources import files

SUFFIX = ".toml"


def shipped_names(package: str = __name__) -> tuple[str, ...]:
    """Return the names of all files in a folder that ship, sorted, with numbers by size."""
    names = (item.name for item in files(package).iterdir())
    shipped = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
    return tuple(sorted(shipped, key=_with_numbers))


def shipped_text(name: str, package: str = __name__) -> str:
    """Return one of them as it was written, with its comments."""
    return files(package).joinpath(name + SUFFIX).read_text(encoding="utf-8")


def _with_numbers(name: str) -> list[tuple[int, str]]:
    """Return a sort key by which `lga-5` comes before `lga-10`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in name.split("-")]
