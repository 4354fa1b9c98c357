"""What stands before every answer: whose address was asked for, how much may come, what goes along.

- A request for another host's name is refused, so that no page elsewhere can have a browser ask
  this program under a name of its own (DNS rebinding).
- A request that changes something must come from a page of this program.
- Bodies are small and come soon.
- Every answer says what a browser may do with it: nothing from elsewhere, nothing inline.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection
from contextlib import suppress
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BODY_BYTES = 64 * 1024
BODY_SECONDS = 10.0
MOST_ADDRESS_BYTES = 4096
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
HEADERS = {
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
    ),
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""The referrer stays within the program; without any, a browser would not tell the origin of a
form either."""
_READS = frozenset({"GET", "HEAD"})
_HOST = re.compile(r"\[?([0-9A-Za-z.:_-]+?)\]?(?::\d{1,5})?")


class Guard:
    """Middleware around the whole program."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        """`hosts` are the names, without ports, under which the program may be asked."""
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse what may not be, else pass it on with limits, and its answer with headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, sent)
            return
        with suppress(ClientDisconnect):  # who left, or took too long, is answered nothing
            await self._app(scope, _limited(receive), sent)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MOST_ADDRESS_BYTES:
            return PlainTextResponse("The address is too long.\n", 414)
        if _host_name(headers.get("host", "")) not in self._hosts:
            return PlainTextResponse(
                "This host name is not one of this program's: start it with "
                "`--allowed-host NAME` if it is to be reached under it.\n",
                421,
            )
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BODY_BYTES:
            return PlainTextResponse(f"At most {MOST_BODY_BYTES} bytes may be sent.\n", 413)
        if scope["method"] not in _READS and not from_here(Request(scope)):
            return PlainTextResponse(
                "This was asked by a page from elsewhere, and nothing was done.\n", 403
            )
        return None


def from_here(request: Request) -> bool:
    """Whether a request was made by a page of this program, or by a program that is no browser.

    A browser says where a request comes from, in `Sec-Fetch-Site` or in `Origin`. What says neither
    must name itself by a bearer token, which no page elsewhere has.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in {"same-origin", "none"}
    origin = request.headers.get("origin")
    if origin is not None:
        return urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()
    return request.headers.get("authorization", "").lower().startswith("bearer ")


def _host_name(host: str) -> str:
    found = _HOST.fullmatch(host)
    return found.group(1).lower() if found else ""


def _limited(receive: Receive) -> Receive:
    """Return `receive` with bounds on what a body holds, and on how long it takes."""
    loop = asyncio.get_running_loop()
    deadline, taken, whole = loop.time() + BODY_SECONDS, 0, False

    async def limited() -> Message:
        nonlocal taken, whole
        if whole:
            return await receive()  # waits for the client to leave, however long that takes
        try:
            message = await asyncio.wait_for(receive(), max(1.0, deadline - loop.time()))
        except asyncio.TimeoutError:
            raise HTTPException(408, "What was sent did not come in time.") from None
        taken += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if taken > MOST_BODY_BYTES:
            raise HTTPException(413, f"At most {MOST_BODY_BYTES} bytes may be sent.")
        return message

    return limited
