"""The base of all models whose values come from outside: settings, messages, reports."""

from __future__ import annotations

from pydantic import VERSION, BaseModel, ConfigDict

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
