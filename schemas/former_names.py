"""Names of before in files that people keep: settings, scenarios, results. Read, never written.

What crosses the wire, and what stands in a ledger, keeps its names for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import model_validator

from schemas.message import Strict


class Renamed(Strict):
    """A model some of whose fields, or of their values, had other names."""

    former_fields: ClassVar[Mapping[str, str]] = {}
    """The present name of a field by the former one."""
    former_values: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    """By field, the present value by the former one."""

    @model_validator(mode="before")
    @classmethod
    def _read_former_names(cls, given: Any) -> Any:  # noqa: ANN401 - whatever is to be validated
        return with_present_names(cls, given) if isinstance(given, dict) else given


def with_present_names(model: type[Renamed], given: dict[str, Any]) -> dict[str, Any]:
    """Return a section with the names of now; raise `ValueError` where both names are given."""
    content: dict[str, Any] = {}
    for name, value in given.items():
        present = model.former_fields.get(name, name)
        if present != name and present in given:
            raise ValueError(f"{name}: is called {present!r} now, which is given too; leave it out")
        former = model.former_values.get(present, {})
        content[present] = former.get(value, value) if isinstance(value, str) else value
    return content
