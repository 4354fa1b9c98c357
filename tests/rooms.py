"""The rooms at the top of the repository, each imported as `fleetledger.<room>`."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]

FLEETLEDGER = "fleetledger"
ROOMS = (
    "coordinator",
    "device_agent",
    "export",
    "learning",
    "methods",
    "runtime",
    "schemas",
    "simulator",
    "transport",
)


def product_files() -> list[Path]:
    files = sorted((ROOT / "src" / "fleetledger").glob("*.py"))
    for room in ROOMS:
        files += sorted((ROOT / room).rglob("*.py"))
    return files


@cache
def product_trees() -> Mapping[Path, ast.Module]:
    """Return what every product file says, parsed once for all tests of a process."""
    with _uncollected():
        return {path: ast.parse(path.read_text(encoding="utf-8")) for path in product_files()}


@contextmanager
def _uncollected() -> Iterator[None]:
    # A million nodes that all stay: each collection meanwhile would look at every one of them.
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
