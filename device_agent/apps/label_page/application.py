"""The page as an application: what waits, naming it, throwing away, taking back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from fleetledger.device_agent.apps.label_page.images import image_routes
from fleetledger.device_agent.apps.label_page.page import (
    Entered,
    Order,
    PageLook,
    digests_in,
    label_page,
    problem_of,
)
from fleetledger.device_agent.errors import AgentError, LabelError
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.models.inbox.labels import ImageLabeller, LabelStep
from fleetledger.runtime.errors import FleetledgerError, InvalidValueError
from fleetledger.runtime.installed_version import installed_version
from fleetledger.transport.pages.answers import TITLES, PageProblem, wants_json
from fleetledger.transport.pages.doors import Doors
from fleetledger.transport.pages.guard import LOOPBACK_HOSTS, Guard
from fleetledger.transport.pages.login import Entrance, LoginForm, LoginWords, login_routes
from fleetledger.transport.pages.people import Person
from fleetledger.transport.pages.renderer import PageTemplates

PROGRAM = "label"
TEMPLATES = PageTemplates("fleetledger.device_agent.apps.label_page")
LOGIN = LoginWords(
    program=PROGRAM,
    about="This page shows images of a device to those who have a link. A new link is made by "
    "whoever has the agent's home:",
    command="fleetledger agent label --link --home HOME",
    button="See the images",
    to_programs="Come in first: by a link of `fleetledger agent label --link --home HOME`, in a "
    "browser.",
)
_MOST_FIELDS = 200


@dataclass(frozen=True)
class PageOfDevice:
    """What stands around the page."""

    place: str
    """The device's name."""
    version: str
    person: Person | None
    first_page: str = "the images"


class LabelDesk:
    """What requests share; one of them changes something at a time."""

    def __init__(
        self, home: AgentHome, hold_out: int = 0, clock: Callable[[], float] = time.time
    ) -> None:
        """Raise `LabelError` for a home whose images cannot be given a class."""
        self.home = home
        self.labeller = ImageLabeller(home, hold_out)
        self.clock = clock
        self._lock = threading.Lock()

    def drawn(self, request: Request, order: Order, entered: Entered | None = None) -> str:
        """Return the page as HTML."""
        page = label_page(
            self.labeller.inbox.waiting(),
            self.labeller.class_names(),
            PageLook(order, self.clock(), entered or Entered()),
            keeps=self.home.settings.inbox.keep,
            last=self.labeller.last,
        )
        return draw(request, "label.html", page)

    def change(self, step: Callable[[ImageLabeller], LabelStep]) -> LabelStep:
        """Change something; raise `LabelError` or `StoreError`."""
        with self._lock:
            return step(self.labeller)


def make_app(desk: LabelDesk, hosts: Collection[str] = ()) -> Starlette:
    """Return the program; `hosts` are names for it beside those of this machine."""
    doors = Doors.of(desk.home.folder, lambda: int(desk.clock() * 1e9), PROGRAM)
    app = Starlette(
        routes=[
            *login_routes(doors, LOGIN, _draw_login),
            Route("/", _page),
            Route("/", _name, methods=["POST"]),
            Route("/undo", _undo, methods=["POST"]),
            Route("/waiting.json", _waiting),
            *image_routes(desk.labeller.inbox),
            TEMPLATES.mount(),
        ],
        middleware=[
            Middleware(Guard, hosts=LOOPBACK_HOSTS | set(hosts)),
            Middleware(Entrance, doors=doors, words=LOGIN),
        ],
        exception_handlers={HTTPException: _refused, FleetledgerError: _refused},
    )
    app.state.desk, app.state.doors = desk, doors
    return app


def draw(request: Request, template: str, page: object) -> str:
    """Return a page in its frame."""
    device = request.app.state.desk.home.settings.device
    frame = PageOfDevice(str(device), installed_version(), getattr(request.state, "person", None))
    return TEMPLATES.draw(template, frame=frame, page=page)


def _draw_login(request: Request, form: LoginForm) -> str:
    return draw(request, "login.html", form)


def _page(request: Request) -> Response:
    desk: LabelDesk = request.app.state.desk
    return HTMLResponse(desk.drawn(request, _order(request)))


async def _name(request: Request) -> Response:
    """Give the chosen images a class, or throw them away; `guess` is one image's own button."""
    fields = await _fields(request)
    return await run_in_threadpool(_carry_out, request, fields)


def _carry_out(request: Request, fields: dict[str, list[str]]) -> Response:
    desk: LabelDesk = request.app.state.desk
    entered = Entered(frozenset(fields.get("image", ())), _one(fields, "new"))
    try:
        done = desk.change(_step_of(desk, fields))
    except (AgentError, InvalidValueError) as error:
        return _again(request, entered, str(error))
    problem = problem_of(done)
    if problem:
        return _again(request, entered, problem)
    return RedirectResponse(_address(request), 303)


def _step_of(desk: LabelDesk, fields: dict[str, list[str]]) -> Callable[[ImageLabeller], LabelStep]:
    if guessed := _one(fields, "guess"):
        digests = digests_in([guessed])
        waiting = desk.labeller.inbox.waiting()
        guess = next((image.guess for image in waiting if image.digest == guessed), None)
        if guess is None:
            raise LabelError("That image is not there any more.")
        return lambda labeller: labeller.give(digests, guess)
    digests = digests_in(fields.get("image", []))
    if _one(fields, "act") == "away":
        return lambda labeller: labeller.throw_away(digests)
    name = _one(fields, "class") or _one(fields, "new")
    return lambda labeller: labeller.give(digests, name)


def _undo(request: Request) -> Response:
    try:
        request.app.state.desk.change(lambda labeller: labeller.undo())
    except AgentError as error:
        return _again(request, Entered(), str(error))
    return RedirectResponse(_address(request), 303)


def _again(request: Request, entered: Entered, problem: str) -> Response:
    """Return the page as it is, with what could not be done and all that was entered."""
    shown = Entered(entered.chosen, entered.text, problem)
    return HTMLResponse(request.app.state.desk.drawn(request, _order(request), shown), 409)


def _waiting(request: Request) -> Response:
    """Return how much waits, for the page that looks whether something came."""
    waiting = request.app.state.desk.labeller.inbox.waiting()
    newest = max((image.time for image in waiting), default=0.0)
    return JSONResponse({"images": len(waiting), "newest": newest})


def _order(request: Request) -> Order:
    return "new" if request.query_params.get("order") == "new" else "doubt"


def _address(request: Request) -> str:
    return "/?order=new" if _order(request) == "new" else "/"


async def _fields(request: Request) -> dict[str, list[str]]:
    body = (await request.body()).decode("utf-8", "replace")
    try:
        return parse_qs(body, max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise HTTPException(413, f"At most {_MOST_FIELDS} fields may be sent.") from error


def _one(fields: dict[str, list[str]], name: str) -> str:
    return fields.get(name, [""])[0]


def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        status, text = error.status_code, "" if error.status_code in {404, 405} else error.detail
    else:
        status, text = 503, str(error)
    title = TITLES.get(status, "This cannot be done.")
    problem = PageProblem(status=status, title=title, text=text)
    if wants_json(request) or request.url.path.endswith(".json"):
        return JSONResponse(problem.model_dump(), status)
    return HTMLResponse(draw(request, "error.html", problem), status)
