"""Words for the log of the device: of a change, a turn or a request."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.contributions import Contribution, PartKey


@dataclass(frozen=True)
class Line:
    """A line of the log: an event with its fields, and the same in words."""

    event: str
    text: str
    fields: dict[str, Any] = field(default_factory=dict)
    """`stage`, `round`, `version`, `index` and what the event has beside."""
    level: int = logging.INFO


def warning(event: str, text: str, **fields: Any) -> Line:  # noqa: ANN401 - as `Line` has them
    """Return a line of what somebody should see."""
    return Line(event, text, fields, logging.WARNING)


def because(reason: str) -> str:
    """Return how a sentence goes on that has a reason; nothing where there is none."""
    return f": {reason}" if reason else ""


def of_part(key: PartKey, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
    """Return the fields of what is about a part."""
    return {"stage": key.stage, "part": key.part, **more}


def of_round(key: PartKey, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
    """Return the fields of what is about an answer to a round."""
    return {"stage": key.stage, "round": key.part, **more}


def contribution_line(event: str, verb: str, body: Contribution) -> Line:
    """Return what is said of a contribution."""
    samples = sum(body.samples.values())
    what = f"{body.payload_kind} of {count_of(samples, 'sample')} ({body.payload_bytes} bytes)"
    key = body.key
    to = f"as part {key.part} of stage {key.stage}"
    fields = of_part(
        key,
        revision=body.revision,
        samples=samples,
        payload_kind=body.payload_kind,
        payload_bytes=body.payload_bytes,
    )
    if body.round is not None:
        to = f"for round {body.round.number}"
        fields["round"] = body.round.number
    return Line(event, f"{verb} {what} {to}", fields)
