"""The base of all messages: a body with a kind, frozen, refusing fields it does not know."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from schemas.errors import SchemaError, shorten


class Strict(BaseModel):
    """A frozen model that refuses fields it does not know, NaN and infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Message(Strict):
    """A message body. Subclasses that cross the wire set `kind`; it names them in the envelope."""

    kind: ClassVar[str]

    @classmethod
    def read(cls, body: dict[str, Any]) -> Message:
        """Validate `body`; raise `SchemaError` that names message, field and value."""
        try:
            return cls.model_validate(body)
        except ValidationError as error:
            raise SchemaError(f"{cls.kind}: {explain(error)}") from error


def explain(error: ValidationError) -> str:
    """Return the first faults of a validation error as `field: value: what is wrong`."""
    faults = [
        f"{'.'.join(str(part) for part in fault['loc']) or 'body'}: "
        f"{shorten(fault['input'])}: {fault['msg']}"
        for fault in error.errors(include_url=False)[:3]
    ]
    return "; ".join(faults)
