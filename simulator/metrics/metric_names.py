"""Names that headline numbers had before, in results that people keep: read, never written."""

from __future__ import annotations

from typing import Any

from pydantic import BeforeValidator

FORMER = {"looks_false_alarms": "novelty_checks_false_alarms"}


def _by_present_names(given: Any) -> Any:  # noqa: ANN401 - whatever is to be validated
    if not isinstance(given, dict):
        return given
    return {FORMER.get(name, name): value for name, value in given.items()}


BY_METRIC = BeforeValidator(_by_present_names)
"""Of a mapping by a headline number's name."""
