"""The base of all messages: a body with a kind, frozen, refusing fields it does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import BeforeValidator, FailFast, ValidationError
from typing_extensions import Self

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError, cut, shorten
from fleetledger.runtime.strict import MAX_FAULTS, Strict
from fleetledger.schemas.canonical import canonical_json

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_TOO_MANY_FAULTS = 500
"""Faults of which none is told: pydantic gives all or none, and a hundred thousand take seconds."""
_LONGEST_REASON = 400
"""Characters of what pydantic says of one fault; it may repeat all that was given."""
_LONGEST_FIELD = 160
"""Characters of a field's path, of which the sender may have made names."""

Item = TypeVar("Item")
Items = Annotated[tuple[Item, ...], FailFast()]
"""Any number of items, up to the first that is wrong: thousands of faults would cost a second."""


def few(most: int) -> BeforeValidator:
    """Refuse a mapping of more than `most` names before any of them is read, as `Items` would."""

    def check(value: object) -> object:
        if isinstance(value, Mapping) and len(value) > most:
            raise ValueError(f"{count_of(len(value), 'name')} are too many; give at most {most}")
        return value

    return BeforeValidator(check)


def is_absent(value: object) -> bool:
    """Whether a field has nothing in it: left out, so that older readers know the message too."""
    return value is None or value in ((), {})


class Message(Strict):
    """A message body. Subclasses that cross the wire set `kind`; it names them in the envelope."""

    kind: ClassVar[str]

    @classmethod
    def read(cls, body: dict[str, Any]) -> Self:
        """Validate `body` as JSON; raise `SchemaError` that names message, field and value.

        Nothing is converted: `"5"`, `5.0` and `true` are not the integer 5, because the published
        JSON Schema does not accept them either.
        """
        return cls.read_text(canonical_json(body), body)

    @classmethod
    def read_text(cls, text: bytes, body: dict[str, Any]) -> Self:
        """Do as `read` with the canonical JSON of `body`, which is known already."""
        try:
            return cls.model_validate_json(text, strict=True)
        except ValidationError as error:
            raise SchemaError(f"{cls.kind}: {explain(error, body)}") from error


def explain(error: ValidationError, given: object = None) -> str:
    """Return the first faults of a validation error as `field: value: what is wrong`.

    With what was `given` the values are taken from there: pydantic makes a copy for every fault.
    """
    count = error.error_count()
    if count > _TOO_MANY_FAULTS:
        return f"{count} fields are wrong or unknown; the schema says which there are"
    faults = error.errors(include_url=False, include_input=given is None)
    told = [_tell(fault, given) for fault in faults[:MAX_FAULTS]]
    if len(faults) > MAX_FAULTS:
        told.append(f"and {len(faults) - MAX_FAULTS} more")
    return "; ".join(told)


def _tell(fault: ErrorDetails, given: object) -> str:
    # Where there are kinds of a field, pydantic puts the kind's tag behind the field's name.
    path = [str(part) for part in fault["loc"] if not str(part).startswith("<")]
    field = cut(".".join(path) or "body", _LONGEST_FIELD)
    if fault["type"] == "missing":
        return f"{field}: is missing; give it"
    value = shorten(fault["input"] if "input" in fault else _found(given, fault["loc"]))
    if fault["type"] == "extra_forbidden":
        return f"{field}: {value}: unknown here; leave it out, or update the older side"
    reason = cut(str(fault.get("ctx", {}).get("error", fault["msg"])), _LONGEST_REASON)
    return f"{field}: {value}: {reason}"


def _found(given: object, place: tuple[int | str, ...]) -> object:
    """Return what stands at a fault's place; of kinds of a field, the tag is no step on the way."""
    before: int | str = ""
    for step in place:
        if step == "[key]":
            return before
        if (isinstance(given, dict) and step in given) or (
            isinstance(given, list | tuple) and isinstance(step, int) and step < len(given)
        ):
            given = given[step]  # type: ignore[index]
        before = step
    return given
