"""Who asks is found before a route is; coming in, and leaving.

A link shows a button, and only the button uses it up: programs that look at links beforehand, to
show what is behind them, do not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import parse_qs, quote

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fleetledger.runtime.log_lines import about
from fleetledger.transport.pages.answers import wants_json
from fleetledger.transport.pages.doors import IDLE_SECONDS, Doors

_OPEN = ("/static/", "/login", "/livez", "/readyz")
"""What anybody may ask who reaches the program; nothing of it names a device or shows an image."""

DrawForm: TypeAlias = "Callable[[Request, LoginForm], str]"
"""Draws `login.html` of a program in its frame."""


@dataclass(frozen=True)
class LoginWords:
    """What a program says of coming in."""

    program: str
    """Its name in the log."""
    about: str
    """To whom it shows what, and who makes another link, by this command:"""
    command: str
    button: str
    """What one presses to come in."""
    to_programs: str
    """How a program comes in."""


@dataclass(frozen=True)
class LoginForm:
    """What the form of coming in says."""

    words: LoginWords
    secret: str
    """Of the link that led here; empty without one."""
    target: str
    """Where one goes on then."""
    wrong: bool = False

    @property
    def title(self) -> str:
        """What there is to do, or went wrong."""
        return "This link does not work any more." if self.wrong else "Come in."


class Entrance:
    """Middleware that lets in whom a door knows."""

    def __init__(self, app: ASGIApp, doors: Doors, words: LoginWords) -> None:
        self._app = app
        self._doors = doors
        self._words = words

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request with who asks, or say how to come in."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        address, now_ns = address_of(request), self._doors.failures.now_ns()
        blocked = self._doors.failures.too_many(address)
        came = self._doors.who(Headers(scope=scope), now_ns)
        if came.wrong:
            self._doors.failures.note(address)
        if came.wrong and blocked:
            await _said("Too many wrong secrets; wait a minute.", 429)(scope, receive, send)
            return
        request.state.person, request.state.session = came.person, came.session
        if came.person is None and not request.url.path.startswith(_OPEN):
            await _how_to_come_in(request, self._words)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _how_to_come_in(request: Request, words: LoginWords) -> Response:
    programs = wants_json(request) or request.url.path.endswith((".json", "/metrics", "/events"))
    if programs or request.method not in {"GET", "HEAD"} or "authorization" in request.headers:
        return _said(words.to_programs, 401)
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/login?next={quote(wanted, safe='')}", 303)


def _said(text: str, status: int) -> Response:
    headers = {"www-authenticate": "Bearer"} if status == 401 else {"retry-after": "60"}
    return JSONResponse({"status": status, "title": text, "text": ""}, status, headers)


def address_of(request: Request) -> str:
    """Return where a request comes from."""
    return request.client.host if request.client else ""


def login_routes(doors: Doors, words: LoginWords, draw: DrawForm) -> list[Route]:
    """Return the routes by which one comes in and leaves; they wait for files in threads."""
    log = logging.getLogger(words.program)

    def form(request: Request, secret: str, target: str, *, wrong: bool = False) -> Response:
        shown = LoginForm(words, secret, _inside(target), wrong)
        return HTMLResponse(draw(request, shown), 403 if wrong else 200)

    def show(request: Request) -> Response:
        secret = request.query_params.get("token", "")
        return form(request, secret, request.query_params.get("next", "/"))

    async def enter(request: Request) -> Response:
        fields = parse_qs((await request.body()).decode("utf-8", "replace"))
        secret = fields.get("token", [""])[0].strip()
        target = fields.get("next", ["/"])[0]
        address, now_ns = address_of(request), doors.failures.now_ns()
        if doors.failures.too_many(address):
            raise HTTPException(429, "Wait a minute.")
        person = doors.links.consume(secret, now_ns)
        if person is None:
            doors.failures.note(address)
            log.warning(
                "a link that opens nothing came from %s", address, extra=about("login.refused")
            )
            return form(request, "", target, wrong=True)
        log.info(
            "%s came in as %s from %s",
            person.name,
            person.role.value,
            address,
            extra=about("login.done", person=person.name, role=person.role.value),
        )
        answer = RedirectResponse(_inside(target), 303)
        answer.set_cookie(
            doors.cookie,
            doors.sessions.make(person, now_ns),
            max_age=int(IDLE_SECONDS),
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return answer

    async def leave(request: Request) -> Response:
        if request.state.session:
            doors.sessions.consume(request.state.session, doors.failures.now_ns())
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(doors.cookie)
        return answer

    return [
        Route("/login", show),
        Route("/login", enter, methods=["POST"]),
        Route("/logout", leave, methods=["POST"]),
    ]


def _inside(target: str) -> str:
    """Return an address of this program, whatever was asked for."""
    plain = target.isascii() and target.isprintable() and "\\" not in target
    return target if plain and target.startswith("/") and not target.startswith("//") else "/"
