"""Fields of a scenario as texts, as `--set` takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleetledger.simulator.scenario.overrides import Unset


def as_changes(fields: Mapping[str, Any]) -> list[str]:
    """Return `name=value` for every field; None leaves out what the scenario says."""
    return [
        Unset(name) if value is None else f"{name}={_text(value)}" for name, value in fields.items()
    ]


def _text(value: Any) -> str:  # noqa: ANN401 - any value of a scenario
    return str(value).lower() if isinstance(value, bool) else str(value)
