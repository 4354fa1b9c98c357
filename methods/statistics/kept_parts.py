"""What the fleet contributed, kept as it came: by class and digest, with how often each is held.

Parts are added and taken out whole, so that neither order nor repeats show: equal data may come
from two devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from fleetledger.methods.errors import MethodError
from fleetledger.schemas.values import ClassName

T = TypeVar("T")
Parts = Mapping[bytes, tuple[T, int]]
"""Parts of one class by digest, each with how often it is held."""


def merged(
    held: Mapping[ClassName, Parts[T]], other: Mapping[ClassName, Parts[T]], sign: int
) -> dict[ClassName, Parts[T]]:
    """Return what is held with the other's parts added, or with -1 taken out.

    Raises `MethodError` where parts are taken out that were not added.
    """
    classes = dict(held)
    for name, parts in other.items():
        classes[name] = _together(name, classes.get(name, {}), parts, sign)
        if not classes[name]:
            del classes[name]
    return classes


def renamed(
    held: Mapping[ClassName, Parts[T]], names: Mapping[ClassName, ClassName]
) -> dict[ClassName, Parts[T]]:
    """Return what is held under `names`, alias to name; classes left out keep theirs."""
    classes: dict[ClassName, Parts[T]] = {}
    for alias, parts in held.items():
        name = names.get(alias, alias)
        classes[name] = _together(name, classes.get(name, {}), parts, 1)
    return classes


def _together(name: ClassName, one: Parts[T], other: Parts[T], sign: int) -> Parts[T]:
    result = dict(one)
    for digest, (part, times) in other.items():
        total = result.get(digest, (part, 0))[1] + sign * times
        if total < 0:
            raise MethodError(
                f"class {name!r}: what is taken out was not added; subtract whole contributions "
                "only"
            )
        result[digest] = (part, total)
        if total == 0:
            del result[digest]
    return result
