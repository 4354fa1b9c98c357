"""`/events`: what changed, as Server-Sent Events; the id of an event is a ledger index.

    event: entries    data: NewEntries
    event: presence   data: WhoIsThere

A client that comes again says the last id that it saw (`Last-Event-ID`, or `?since=`), and is told
of everything after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetledger.coordinator.dashboard.follower import LedgerFollower, NewEntries

PING_SECONDS = 20
SEND_SECONDS = 15.0
"""A client that takes nothing for so long is dropped."""
MOST_OF_ONE = 20
"""Streams that one session or token may have open."""
_COME_AGAIN_MS = 2000


def stream_route(follower: LedgerFollower) -> Route:
    """Return the route of the stream."""
    open_streams: Counter[str] = Counter()

    async def events(request: Request) -> Response:
        since = _since(request)
        if follower.full:
            raise HTTPException(503, "Too many listen already.")
        listener = request.state.session or request.state.person.name
        if open_streams[listener] >= MOST_OF_ONE:
            raise HTTPException(429, f"You listen in {MOST_OF_ONE} places already; close some.")
        return EventSourceResponse(
            _counted(_told(follower, since), open_streams, listener),
            ping=PING_SECONDS,
            send_timeout=SEND_SECONDS,
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )

    return Route("/events", events)


def _since(request: Request) -> int | None:
    text = request.headers.get("last-event-id") or request.query_params.get("since", "")
    if not text:
        return None
    if not text.lstrip("-").isdecimal() or len(text) > 18:
        raise HTTPException(400, "`since` is the index of an entry.")
    return max(-1, int(text))


async def _told(follower: LedgerFollower, since: int | None) -> AsyncIterator[ServerSentEvent]:
    yield ServerSentEvent(comment="listening", retry=_COME_AGAIN_MS)
    async for change in follower.listen(since):
        data = change.model_dump_json()
        if isinstance(change, NewEntries):
            yield ServerSentEvent(data, event="entries", id=str(change.last))
        else:
            yield ServerSentEvent(data, event="presence")


async def _counted(
    stream: AsyncIterator[ServerSentEvent], open_streams: Counter[str], listener: str
) -> AsyncIterator[ServerSentEvent]:
    open_streams[listener] += 1
    try:
        async for event in stream:
            yield event
    finally:
        open_streams[listener] -= 1
