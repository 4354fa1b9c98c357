"""The dashboard as an application: routes of pages, their JSON, errors in words."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from pathlib import Path

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from fleetledger.coordinator.core.state_fold import StateKeeper
from fleetledger.coordinator.dashboard import answers
from fleetledger.coordinator.dashboard.action_routes import action_routes
from fleetledger.coordinator.dashboard.follower import LedgerFollower, NewEntries
from fleetledger.coordinator.dashboard.inspection import Inspecting, inspection_route
from fleetledger.coordinator.dashboard.metrics.routes import Metered, metric_routes
from fleetledger.coordinator.dashboard.page import Page
from fleetledger.coordinator.dashboard.pages import PAGES
from fleetledger.coordinator.dashboard.placeholder import LOOK_AGAIN_SECONDS
from fleetledger.coordinator.dashboard.renderer import TEMPLATES, draw, draw_page
from fleetledger.coordinator.dashboard.sources import Asked, NotThereError, open_sources
from fleetledger.coordinator.dashboard.verification import Verification, verification_route
from fleetledger.coordinator.errors import LedgerError
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.settings import load
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.runtime.installed_version import installed_version
from fleetledger.transport.pages.answers import TITLES, PageProblem, wants_json
from fleetledger.transport.pages.doors import Doors
from fleetledger.transport.pages.guard import LOOPBACK_HOSTS, Guard
from fleetledger.transport.pages.login import Entrance, LoginWords, login_routes

PING_SECONDS = 20
SEND_SECONDS = 15.0
"""A client that takes nothing for so long is dropped."""
MOST_OF_ONE = 20
"""Streams that one session or token may have open."""
_COME_AGAIN_MS = 2000


def stream_route(follower: LedgerFollower) -> Route:
    """Return the route of `/events`: Server-Sent Events, each with a ledger index as its id.

    A client that comes again names the last id that it saw (`Last-Event-ID`, or `?since=`), and
    gets everything after it.
    """
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


PAGE_SECONDS = 30.0
"""How long a page may take before it is given up."""
LOGIN = LoginWords(
    program="dashboard",
    about="This dashboard shows a fleet to those who have a link. A new link is made by whoever "
    "has the coordinator's home:",
    command="fleetledger dashboard link YOUR-NAME --role viewer --home HOME",
    button="See the fleet",
    to_programs="Come in first: by a link of `fleetledger dashboard link NAME --home HOME`, or by "
    "a token of `fleetledger dashboard token NAME --home HOME` in the header `Authorization: "
    "Bearer TOKEN`.",
)
log = logging.getLogger(__name__)


def make_app(
    home: Path,
    *,
    now_ns: Callable[[], int] = time.time_ns,
    hosts: Collection[str] = (),
    pages: tuple[Page, ...] = PAGES,
    per_device: bool = False,
    doors: Doors | None = None,
) -> Starlette:
    """Return the dashboard of the coordinator in `home`; raise `SettingsError`.

    `hosts` are names under which it may be asked beside those of this machine; `per_device` has
    metrics name devices; `doors` are ways in other than those of `home`.
    """
    settings, verification = load(home), Verification(home, now_ns)
    inspecting = Inspecting(home, now_ns)
    method = settings.method.name if settings.learning else "none"
    dashboard = answers.Dashboard(
        home,
        settings.fleet,
        method,
        installed_version(),
        now_ns,
        settings.learning,
        settings.trial,
    )
    states = StateKeeper(home)
    doors, follower = doors or Doors.of(home, now_ns), LedgerFollower(home, now_ns)
    app = Starlette(
        routes=[
            *login_routes(doors, LOGIN, answers.draw_login),
            stream_route(follower),
            verification_route(verification),
            inspection_route(inspecting),
            *action_routes(),
            *metric_routes(Metered(states, now_ns, dashboard.method, per_device)),
            TEMPLATES.mount(),
            *_page_routes(dashboard, pages),
        ],
        middleware=[
            Middleware(Guard, hosts=LOOPBACK_HOSTS | set(hosts)),
            Middleware(Entrance, doors=doors, words=LOGIN),
        ],
        exception_handlers={
            HTTPException: _refused,
            FleetledgerError: _refused,
            Exception: _failed,
        },
    )
    app.state.dashboard, app.state.pages = dashboard, pages
    app.state.verification, app.state.inspecting = verification, inspecting
    app.state.states = states
    app.state.doors, app.state.follower = doors, follower
    return app


def _page_routes(dashboard: answers.Dashboard, pages: Iterable[Page]) -> Iterable[Route]:
    for page in pages:  # the JSON first: the name of a device may hold what ends it
        yield Route(page.json_path, _answering(dashboard, page, as_json=True))
    for page in pages:
        yield Route(page.path, _answering(dashboard, page, as_json=False), name=page.name)


def _answering(
    dashboard: answers.Dashboard, page: Page, *, as_json: bool
) -> Callable[[Request], object]:
    def made(request: Request) -> Response:
        asked = Asked(request.path_params, dict(request.query_params))
        kept = request.app.state
        known = kept.verification.now, kept.inspecting.now
        with open_sources(kept.states, dashboard.now_ns, *known) as sources:
            model = page.read(sources, asked)
            size = sources.ledger.size
        if as_json or wants_json(request):
            return Response(model.model_dump_json(indent=2), media_type="application/json")
        query = f"?{request.url.query}" if request.url.query else ""
        path = page.json_path if page.path == "/" else f"{request.url.path}.json"
        frame = answers.frame_of(
            request, now_ns=sources.now_ns, size=size, page=page, json_url=path + query
        )
        return HTMLResponse(draw_page(page, model, frame))

    async def answer(request: Request) -> Response:
        return await asyncio.wait_for(run_in_threadpool(made, request), PAGE_SECONDS)

    return answer


def _refused(request: Request, error: Exception) -> Response:
    dashboard: answers.Dashboard = request.app.state.dashboard
    if isinstance(error, LedgerError) and not ledger_path(dashboard.home).exists():
        return _empty(request)
    status, title, text = _explained(error)
    return answers.problem_answer(request, PageProblem(status=status, title=title, text=text))


def _empty(request: Request) -> Response:
    """Return the page of a fleet whose coordinator has yet to begin its ledger."""
    found = PageProblem(
        status=200,
        title="The fleet is empty: its coordinator has never run.",
        text="There is no entry and no device yet; this page turns into the fleet when there is. "
        "The next three commands:",
    )
    if wants_json(request) or request.url.path.endswith(".json"):
        return answers.problem_answer(request, found)
    answer = HTMLResponse(draw("waiting.html", answers.frame_of(request), page=found))
    answer.headers["retry-after"] = str(LOOK_AGAIN_SECONDS)
    return answer


def _explained(error: Exception) -> tuple[int, str, str]:
    if isinstance(error, HTTPException):
        title = TITLES.get(error.status_code, "This cannot be done.")
        return error.status_code, title, "" if error.status_code in {404, 405} else error.detail
    if isinstance(error, NotThereError):
        return 404, "That is not there.", str(error)
    if isinstance(error, LedgerError):
        return 503, "The ledger cannot be read.", str(error)
    return 400, "This cannot be done.", str(error)


def _failed(request: Request, error: Exception) -> Response:
    if isinstance(error, asyncio.TimeoutError):
        text = f"It took more than {PAGE_SECONDS:g} s, and was given up."
        problem = PageProblem(status=503, title="This page takes too long.", text=text)
    else:
        text = "It is a mistake in this program; its log says more. The fleet goes on without it."
        problem = PageProblem(status=500, title="This page failed.", text=text)
    return answers.problem_answer(request, problem)
