"""What a dashboard shows before there is a fleet: the words that it is being waited for."""

from __future__ import annotations

import time
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from fleetledger.coordinator.dashboard import answers
from fleetledger.coordinator.dashboard.follower import LedgerFollower
from fleetledger.coordinator.dashboard.renderer import TEMPLATES, draw
from fleetledger.transport.pages.answers import PageProblem, wants_json
from fleetledger.transport.pages.guard import LOOPBACK_HOSTS, Guard

LOOK_AGAIN_SECONDS = 2
_TITLE = "The fleet is being made ready."
_TEXT = (
    "Data and the frozen model are prepared, and the coordinator has not written its first entry. "
    f"This page looks again every {LOOK_AGAIN_SECONDS} s, and shows the fleet as soon as there is "
    "one."
)


def make_waiting_app(version: str) -> Starlette:
    """Return an application that answers every address with why there is nothing yet.

    It lets anybody read that, and leaves the address as it was asked for: a link that works once
    is still good when the fleet is there.
    """
    app = Starlette(
        routes=[
            TEMPLATES.mount(),
            Route("/livez", _lives),
            Route("/{rest:path}", _waits, methods=["GET", "POST"]),
        ],
        middleware=[Middleware(Guard, hosts=LOOPBACK_HOSTS)],
    )
    nowhere = Path()
    app.state.dashboard = answers.Dashboard(nowhere, "", "", version, time.time_ns)
    app.state.pages, app.state.follower = (), LedgerFollower(nowhere, time.time_ns)
    return app


def _lives(_: Request) -> Response:
    return PlainTextResponse("ok\n")


def _waits(request: Request) -> Response:
    problem = PageProblem(status=503, title=_TITLE, text=_TEXT)
    if wants_json(request) or request.url.path.endswith(".json"):
        answer = answers.problem_answer(request, problem)
    else:
        answer = HTMLResponse(draw("waiting.html", answers.frame_of(request), page=problem), 503)
    answer.headers["retry-after"] = str(LOOK_AGAIN_SECONDS)
    return answer
