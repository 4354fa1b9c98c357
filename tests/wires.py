"""Three versions of the wire for tests: the models are of the third.

A step renames fields of some kinds, so a program reads nothing that was written in a version other
than the one that it speaks.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleetledger.schemas.wire import Body, WireRange, WireStep, WireVersions

Names = Mapping[str, Mapping[str, str]]
"""By kind: name of a field in the lower version, by its name in the higher."""


def _step(version: int, names: Names) -> WireStep:
    def lower(kind: str, body: Body) -> Body:
        renamed = names.get(kind, {})
        return {renamed.get(name, name): value for name, value in body.items()}

    def higher(kind: str, body: Body) -> Body:
        renamed = {old: new for new, old in names.get(kind, {}).items()}
        return {renamed.get(name, name): value for name, value in body.items()}

    return WireStep(version, lower, higher)


STEPS = (
    _step(2, {"welcome": {"next_part": "next"}, "evaluation": {"version": "model_version"}}),
    _step(
        3,
        {
            "assignment": {"class_names": "names"},
            "contribution": {"payload_bytes": "size"},
            "nothing": {"reason": "why"},
            "receipt": {"answer": "says"},
        },
    ),
)
FIRST = WireVersions(WireRange(), STEPS)
"""A program two versions behind `THIRD`."""
SECOND = WireVersions(WireRange(lowest=2, highest=2), STEPS)
"""The minor version that `THIRD` leads beside its own."""
THIRD = WireVersions(WireRange(lowest=2, highest=3), STEPS)
