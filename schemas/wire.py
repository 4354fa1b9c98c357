"""Versions of the wire: which ones a program speaks, and how a body reads in an older one.

The models of `schemas` are of the newest version. A `WireStep` translates the bodies of one version
into those of the version below, and back. It is the only place that knows the older form.

Two programs speak the highest version that both know. Each tells its range in its birth. Kinds in
`SETTLED` are sent before that is agreed, and have one form in all versions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.runtime.errors import shorten
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.errors import EnvelopeError

MAX_VERSION = 999
SETTLED_VERSION = 1
"""Version in the header of kinds that have one form."""
SETTLED = frozenset(
    (
        "birth",
        "death",
        "heartbeat",
        "device.health",
        "enrolment",
        "key.rotation",
        "enrolled",
        "problem",
        "coordinator.birth",
        "coordinator.heartbeat",
        "coordinator.death",
        "block.request",
        "block.data",
        "block.refused",
    )
)
"""Kinds that have the same form in all versions of the wire."""

Body = dict[str, Any]
Translation = Callable[[str, Body], Body]
"""Returns a body of the given kind in the neighbouring version; it may return what it got."""


class WireRange(Strict):
    """Versions of the wire that a program speaks, both ends included."""

    lowest: int = Field(default=1, ge=1, le=MAX_VERSION)
    highest: int = Field(default=1, ge=1, le=MAX_VERSION)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.lowest > self.highest:
            raise ValueError(f"lowest: is above the highest, {self.highest}; exchange them")
        return self

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    @property
    def short(self) -> str:
        """For a column of a table, such as `1-2`."""
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"

    def __str__(self) -> str:
        if self.lowest == self.highest:
            return f"version {self.lowest}"
        return f"versions {self.lowest} to {self.highest}"

    def common(self, other: WireRange) -> int | None:
        """Return the highest version of both ranges; None if they have none in common."""
        highest = min(self.highest, other.highest)
        return highest if highest >= max(self.lowest, other.lowest) else None


@dataclass(frozen=True)
class WireStep:
    """Difference between a version of the wire and the one below it."""

    version: int
    """The higher of the two."""
    lower: Translation
    """Translates a body into the version below."""
    higher: Translation
    """Translates a body of the version below into this one."""


@dataclass(frozen=True)
class WireVersions:
    """Versions that a program speaks, and the steps between them."""

    range: WireRange
    steps: tuple[WireStep, ...] = ()
    """In ascending order; the models are of the last one's version."""

    def version_of(self, kind: str, agreed: int | None = None) -> int:
        """Return the version in which a message of this kind is written."""
        if kind in SETTLED:
            return SETTLED_VERSION
        return self.range.highest if agreed is None else agreed

    def written(self, kind: str, body: Body, version: int) -> Body:
        """Return a body of the models in an older version."""
        if kind in SETTLED:
            return body
        for step in reversed(self.steps):
            if step.version > version:
                body = step.lower(kind, body)
        return body

    def read(self, kind: str, body: Body, version: object) -> Body:
        """Return a body as the models have it; raise `EnvelopeError` for an unknown version."""
        if kind in SETTLED:
            if version != SETTLED_VERSION:
                raise EnvelopeError(
                    f"version: {shorten(version)} of {kind!r}, which has one form; "
                    f"write {SETTLED_VERSION}"
                )
            return body
        if not isinstance(version, int) or version not in self.range:
            raise EnvelopeError(
                f"version: {shorten(version)} of {kind!r} is unknown here; this program speaks "
                f"{self.range} of the wire: update the older side"
            )
        for step in self.steps:
            if step.version > version:
                body = step.higher(kind, body)
        return body


OWN = WireVersions(WireRange())
"""WireVersions of this program. The first change of a body in a later release adds a step."""
