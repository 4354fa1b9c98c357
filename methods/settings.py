"""Settings of methods: what an operator gave, checked, and presets that fill in the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from fleetledger.methods.errors import MethodError
from fleetledger.runtime.setting_faults import describe_faults, model_in

SECTION = "method.settings"

Presets = Mapping[str, Mapping[str, Any]]
"""Named sets of values, beside which whatever is given wins."""


def refuse_unknown(assignment: type[BaseModel], settings: Mapping[str, object]) -> None:
    """Raise `MethodError` for a setting that the method lacks, with the name that is nearest."""
    model = model_in(assignment.model_fields["settings"].annotation)
    if model is None:
        return
    try:
        model.model_validate(dict(settings))
    except ValidationError as error:
        if any(fault["type"] == "extra_forbidden" for fault in error.errors(include_url=False)):
            raise MethodError(describe_faults(error, model, SECTION)) from error


def filled_in(values: Any, field: str, presets: Presets, default: str) -> Any:  # noqa: ANN401
    """Return the values that were given, over those of the preset that `field` names.

    An unknown preset fills in nothing, and what is no mapping stays as it is: validation tells of
    both.
    """
    if not isinstance(values, Mapping):
        return values
    return {**presets.get(str(values.get(field, default)), {}), **values}
