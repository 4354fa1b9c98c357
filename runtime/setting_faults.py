"""Validation errors in the words of who wrote settings: key, value, and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable
from types import NoneType
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from fleetledger.runtime.errors import InvalidValueError, cut, shorten
from fleetledger.runtime.strict import MAX_FAULTS

Location = tuple[int | str, ...]
_LONGEST_REASON = 400
_SECTION_FAULTS = ("dict_type", "model_type", "model_attributes_type")
_WORDS = (
    ("Input should ", "must "),
    ("String should ", "text must "),
    ("List should ", "list must "),
    ("Tuple should ", "list must "),
    ("Value should ", "must "),
)
"""How pydantic's sentences begin, and how ours do."""


def describe_faults(error: ValidationError, model: type[BaseModel], prefix: str = "") -> str:
    """Return the first faults of a validation of `model`, fields under `prefix`."""
    faults = error.errors(include_url=False)
    told = [_tell(dict(fault), model, prefix) for fault in faults[:MAX_FAULTS]]
    if len(faults) > MAX_FAULTS:
        told.append(f"and {len(faults) - MAX_FAULTS} more")
    return "; ".join(told)


def unknown(field: str, name: str, allowed: Iterable[str]) -> str:
    """Return what to say of a setting `field` whose last part `name` nobody knows."""
    import difflib  # noqa: PLC0415 - of no use to a program that starts

    names = sorted(allowed)
    close = difflib.get_close_matches(name, names, n=1)
    listed = f"settings here: {', '.join(names)}" if names else "leave it out"
    return f"{field}: no such setting; " + (f"did you mean {close[0]!r}?" if close else listed)


def section_at(model: type[BaseModel], path: Location) -> type[BaseModel] | None:
    """Return the model of the section at `path` below `model`; None where there is none."""
    section: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, int):
            continue  # a place in a list of sections
        if section is None or part not in section.model_fields:
            return None
        section = model_in(section.model_fields[part].annotation)
    return section


def model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 - any annotation
    """Return the model that an annotation is, or holds in a tuple or beside None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = [item for item in get_args(annotation) if item not in (..., NoneType)]
    return model_in(inner[0]) if len(inner) == 1 else None


def _tell(fault: dict[str, Any], model: type[BaseModel], prefix: str) -> str:
    location: Location = fault["loc"]
    field = ".".join([prefix, *map(str, location)] if prefix else map(str, location))
    if fault["type"] == "missing":
        return f"{field}: is missing; give it"
    if fault["type"] == "extra_forbidden":
        section = section_at(model, location[:-1])
        return unknown(field, str(location[-1]), section.model_fields if section else ())
    reason = fault.get("ctx", {}).get("error")
    if isinstance(reason, InvalidValueError):
        return f"{field}: {shorten(reason.value)} is not allowed; {reason.way_out}"
    if isinstance(reason, ValueError):  # of a whole section: the text begins with the field
        return f"{field}.{reason}" if field else str(reason)
    return f"{field}: {shorten(fault['input'])}: {_reason(fault)}"


def _reason(fault: dict[str, Any]) -> str:
    """Return what is allowed, without the words of the library that checks it."""
    if fault["type"] in _SECTION_FAULTS:
        return "must be a section with settings of its own"
    text = cut(fault["msg"], _LONGEST_REASON).removesuffix(" after validation")
    for before, after in _WORDS:
        if text.startswith(before):
            return text.replace(before, after, 1)
    return text
