"""Presets of settings: named sets of values, beside which whatever is given wins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Presets = Mapping[str, Mapping[str, Any]]


def filled_in(values: Any, field: str, presets: Presets, default: str) -> Any:  # noqa: ANN401
    """Return the values that were given, over those of the preset that `field` names.

    An unknown preset fills in nothing, and what is no mapping stays as it is: validation tells of
    both.
    """
    if not isinstance(values, Mapping):
        return values
    return {**presets.get(str(values.get(field, default)), {}), **values}
