"""The base of all models whose values come from outside: settings, messages, reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import VERSION, BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema
from typing_extensions import Self

MAX_FAULTS = 3
"""Faults told at once; the rest are counted."""

_BUILT_WHEN_USED = tuple(map(int, VERSION.split(".")[:2])) >= (2, 14)
"""Whether a model is built at its first use. Older versions build without a lock, and a second
thread can meet a half-built model there."""


class Strict(BaseModel):
    """A frozen model that refuses fields it does not know, NaN and infinity."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, defer_build=_BUILT_WHEN_USED
    )

    @classmethod
    def of_known(cls, **values: object) -> Self:
        """Return a model of values that this program has checked before, all of its fields.

        The law: for such values it equals `cls(**values)`. It takes a fifth of the time, and
        `model_construct`, which looks for defaults, takes longer than both.
        """
        made = cls.__new__(cls)
        object.__setattr__(made, "__dict__", values)
        object.__setattr__(made, "__pydantic_fields_set__", set(values))
        object.__setattr__(made, "__pydantic_extra__", None)
        object.__setattr__(made, "__pydantic_private__", None)
        return made


@dataclass(frozen=True, eq=False)
class NameIn:
    """Annotation of a field whose value is a name of a table when it is read."""

    table: Mapping[str, object]

    def check(self, name: str) -> str:
        """Return the name; raise `ValueError` where the table has no such name."""
        if name not in self.table:
            known = ", ".join(map(repr, self.table))
            raise ValueError(f"{name!r} is unknown; give one of {known}")
        return name

    def __get_pydantic_core_schema__(
        self, source: type[str], handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, object]:
        return {**handler(schema), "enum": list(self.table)}
