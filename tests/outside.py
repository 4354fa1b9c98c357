"""Values from outside, for one test."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fleetledger.runtime import registry as registry_module
from fleetledger.runtime.registry import Registry


@contextmanager
def nothing_stays(*tables: Registry[Any]) -> Iterator[None]:
    """Forget at the end what programs added to tables meanwhile."""
    added = [(table, dict(table._added)) for table in tables]
    sources = dict(registry_module._SOURCES)
    try:
        yield
    finally:
        for table, before in added:
            table._added.clear()
            table._added.update(before)
        registry_module._SOURCES.clear()
        registry_module._SOURCES.update(sources)


@contextmanager
def added(table: Registry[Any], name: str, value: object) -> Iterator[None]:
    """Have a table know one value more."""
    with nothing_stays(table):
        table.add(name, value, getattr(value, "__module__", None))
        yield
