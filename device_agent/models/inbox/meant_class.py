"""Class that an owner means: one that is there, or a new one distinct from all of these.

- A name that is there is that class, however its accents are typed.
- A new one obeys the rules of class folders, and those by which a fleet takes new names.
- A new one that looks like one that is there, or differs from it in upper and lower case alone, is
  refused: both would be folders, and two classes for the whole fleet.
"""

from __future__ import annotations

from collections.abc import Collection

from fleetledger.device_agent.errors import LabelError
from fleetledger.runtime.errors import InvalidValueError, shorten
from fleetledger.schemas.class_names import fault_of, skeleton
from fleetledger.schemas.values import ClassName


def class_meant(text: str, known: Collection[ClassName]) -> ClassName:
    """Return the class that `text` names, new or among `known`; raise `LabelError`."""
    if not text.strip():
        raise LabelError("Say the name of the class.")
    try:
        name = ClassName(text.strip())
    except InvalidValueError as error:
        raise LabelError(f"{shorten(text)}: a class has {error.way_out}.") from error
    if name in known:
        return name
    fault = fault_of(name)
    if fault:
        raise LabelError(f"{shorten(name)}: {fault}.")
    alike = sorted(other for other in known if _folded(other) == _folded(name))
    if alike:
        raise LabelError(
            f"{name}: looks like {alike[0]}, which is there; choose that, or a name that differs "
            "in more than its look and case."
        )
    return name


def _folded(name: str) -> str:
    return skeleton(name.casefold())
