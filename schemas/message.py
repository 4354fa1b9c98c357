"""The base of all messages: a body with a kind, frozen, refusing fields it does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError
from typing_extensions import Self

from schemas.canonical import canonical_json
from schemas.errors import SchemaError, shorten

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_FAULTS = 3
"""Faults told at once; the rest are counted."""


class Strict(BaseModel):
    """A frozen model that refuses fields it does not know, NaN and infinity."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class Message(Strict):
    """A message body. Subclasses that cross the wire set `kind`; it names them in the envelope."""

    kind: ClassVar[str]

    @classmethod
    def read(cls, body: dict[str, Any]) -> Self:
        """Validate `body` as JSON; raise `SchemaError` that names message, field and value.

        Nothing is converted: `"5"`, `5.0` and `true` are not the integer 5, because the published
        JSON Schema does not accept them either.
        """
        try:
            return cls.model_validate_json(canonical_json(body), strict=True)
        except ValidationError as error:
            raise SchemaError(f"{cls.kind}: {explain(error)}") from error


def explain(error: ValidationError) -> str:
    """Return the first faults of a validation error as `field: value: what is wrong`."""
    faults = error.errors(include_url=False)
    told = [_tell(fault) for fault in faults[:MAX_FAULTS]]
    if len(faults) > MAX_FAULTS:
        told.append(f"and {len(faults) - MAX_FAULTS} more")
    return "; ".join(told)


def _tell(fault: ErrorDetails) -> str:
    # Where there are kinds of a field, pydantic puts the kind's tag behind the field's name.
    path = [str(part) for part in fault["loc"] if not str(part).startswith("<")]
    field = ".".join(path) or "body"
    if fault["type"] == "missing":
        return f"{field}: is missing; give it"
    value = shorten(fault["input"])
    if fault["type"] == "extra_forbidden":
        return f"{field}: {value}: unknown here; leave it out, or update the older side"
    reason = fault.get("ctx", {}).get("error", fault["msg"])
    return f"{field}: {value}: {reason}"
