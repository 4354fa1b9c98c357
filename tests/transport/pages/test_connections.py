"""Half-sent requests cost a server of pages places, and never its next answer."""

import http.client
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fleetledger.transport.pages import connections
from fleetledger.transport.pages.server import ListenAddress, listen, server_of

PATIENCE = 30.0
HALF_HEAD = b"GET /who HTTP/1.1\r\nHost: 127.0.0.1\r\nX-a: "
HALF_BODY = b"POST /taken HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\nhalf"


async def _who(request: Request) -> Response:
    return PlainTextResponse(request.client.host if request.client else "")


async def _taken(request: Request) -> Response:
    return PlainTextResponse(await request.body())


@contextmanager
def serving(listening: ListenAddress) -> Iterator[int]:
    """Serve until left, on a free port of this machine."""
    app = Starlette(routes=[Route("/who", _who), Route("/taken", _taken, methods=["POST"])])
    with listen(listening) as listener:
        server = server_of(app, listening)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()


def answer(port: int, **headers: str) -> str:
    """Return the body of `/who`, asked on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", "/who", headers=headers)
        found = connection.getresponse()
        assert found.status == 200
        return found.read().decode()
    finally:
        connection.close()


def begun(port: int, begin: bytes, stack: ExitStack) -> socket.socket:
    """Return a connection on which a request was begun."""
    opened = stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
    opened.sendall(begin)
    return opened


def ended(opened: socket.socket) -> bool:
    """Return whether the server ends a connection, within the patience of the test."""
    try:
        return opened.recv(1) == b""
    except ConnectionResetError:
        return True


def until_ended(held: list[socket.socket], number: int) -> None:
    """Return once the server has ended so many connections."""
    waiting = select.poll()
    for one in held:
        waiting.register(one, select.POLLIN)
    end = time.monotonic() + PATIENCE
    while (found := len(waiting.poll(100))) < number:
        assert time.monotonic() < end, f"{found} of {number} connections ended"


@pytest.mark.parametrize("begin", [HALF_HEAD, HALF_BODY, b""])
def test_five_hundred_half_sent_requests_of_one_address_leave_the_server_on_the_air(
    begin: bytes,
) -> None:
    with serving(ListenAddress()) as port, ExitStack() as stack:
        held = [begun(port, begin, stack) for _ in range(520)]
        assert [answer(port) for _ in range(3)] == ["127.0.0.1"] * 3
        until_ended(held, len(held) - connections.MOST_WAITING_OF_ONE)


@pytest.mark.parametrize("begin", [HALF_HEAD, b""])
def test_a_head_has_to_come_in_time(begin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    with serving(ListenAddress()) as port, ExitStack() as stack:
        assert ended(begun(port, begin, stack))
        later = begun(port, b"GET /who HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", stack)
        assert later.recv(4096).startswith(b"HTTP/1.1 200")
        later.sendall(HALF_HEAD)
        while later.recv(4096):  # the rest of the first answer
            pass


def test_nobody_is_believed_to_ask_for_another_address_but_the_proxy_that_was_named() -> None:
    forwarded = {"X-Forwarded-For": "192.0.2.7"}
    with serving(ListenAddress()) as port:
        assert answer(port, **forwarded) == "127.0.0.1"
    with serving(ListenAddress(proxy="192.0.2.1")) as port:
        assert answer(port, **forwarded) == "127.0.0.1"
    with serving(ListenAddress(proxy="127.0.0.1")) as port, ExitStack() as stack:
        assert answer(port, **forwarded) == "192.0.2.7"
        for _ in range(connections.MOST_WAITING_OF_ONE + 1):
            kept = begun(port, HALF_HEAD, stack)
        kept.sendall(b"x\r\n\r\n")
        assert kept.recv(4096).startswith(b"HTTP/1.1 200"), "a proxy has no share to keep to"
