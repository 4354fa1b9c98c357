"""Answers that are no page: JSON where it is preferred, and why something cannot be done."""

from __future__ import annotations

from starlette.requests import Request

from fleetledger.runtime.strict import Strict

TITLES = {
    403: "You may not do this.",
    404: "There is no such page.",
    405: "This address cannot be used that way.",
    408: "That took too long.",
    413: "That was too much.",
    429: "Too many wrong secrets.",
}
"""What a status says to a person."""


class PageProblem(Strict):
    """Why there is no page."""

    status: int
    title: str
    text: str


def wants_json(request: Request) -> bool:
    """Whether a request prefers JSON: it names it, and names HTML not or later."""
    accepted = [
        part.partition(";")[0].strip() for part in request.headers.get("accept", "").split(",")
    ]
    if "application/json" not in accepted:
        return False
    return "text/html" not in accepted or accepted.index("application/json") < accepted.index(
        "text/html"
    )
