"""What an operator gave a method under `[method.settings]`, before it is part of an assignment."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ValidationError

from fleetledger.methods.errors import MethodError
from fleetledger.runtime.setting_faults import describe_faults, model_in

SECTION = "method.settings"


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
