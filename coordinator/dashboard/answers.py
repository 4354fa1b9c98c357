"""What answers of all routes share: what stands around a page, problems in words, coming in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from fleetledger.coordinator.dashboard.renderer import PageFrame, draw
from fleetledger.transport.pages.answers import PageProblem, wants_json
from fleetledger.transport.pages.login import LoginForm


@dataclass(frozen=True)
class Dashboard:
    """What routes share."""

    home: Path
    fleet: str
    method: str
    version: str
    now_ns: Callable[[], int]
    learning: bool = True
    """Whether the fleet learns; where it does not, pages about learning are not in the way."""
    trial: bool = False
    """Whether the fleet is for trying, and needs no keys."""


def frame_of(request: Request, **values: object) -> PageFrame:
    """Return what stands around the answer to a request."""
    dashboard: Dashboard = request.app.state.dashboard
    made: dict[str, object] = {
        "fleet": dashboard.fleet,
        "version": dashboard.version,
        "person": getattr(request.state, "person", None),
        "pages": request.app.state.pages,
        "now_ns": dashboard.now_ns(),
        "path": request.url.path,
        "learning": dashboard.learning,
        "trial": dashboard.trial,
        "home": dashboard.home.absolute(),
    }
    return PageFrame(**(made | values))  # type: ignore[arg-type]


def problem_answer(request: Request, problem: PageProblem) -> Response:
    """Return why there is no page, as the request wants it."""
    if wants_json(request) or request.url.path.endswith(".json"):
        return JSONResponse(problem.model_dump(), problem.status)
    return HTMLResponse(draw("error.html", frame_of(request), page=problem), problem.status)


def draw_login(request: Request, form: LoginForm) -> str:
    """Return the form by which one comes in."""
    return draw("login.html", frame_of(request), page=form)
