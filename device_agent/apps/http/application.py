"""The program's answers: v1 for frames, v2 for tensors, events for whoever waits for a new model.

- Each answer comes from one version of the model and names it.
- At most `MOST_WAITING` requests wait for the model; who comes then is told to try again.
- A body gets its room, and its request its place, before a byte of it is read.
- No page of a browser may ask: an `Origin` is refused, and so is the name of another host.
- Over TCP every request but that for life has the token of this home.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fleetledger.device_agent.apps.http import open_inference
from fleetledger.device_agent.apps.http.bodies import BodyRoom
from fleetledger.device_agent.apps.http.replies import (
    ClassReply,
    ErrorReply,
    FeatureReply,
    MaskReply,
    ServedModelReply,
)
from fleetledger.device_agent.errors import LoadError, ModelError, NoModelError, StoreError
from fleetledger.device_agent.models.comparison.live import LiveSample
from fleetledger.device_agent.models.inference.loaded import LeasedModel
from fleetledger.device_agent.models.inference.running_model import RunningModel
from fleetledger.learning.errors import NotFiniteError, SampleError
from fleetledger.schemas.message import explain

log = logging.getLogger("device_agent.http")
MOST_WAITING = 32
MOST_LISTENERS = 64
LOOK_SECONDS = 0.25
_LIFE = "/v2/health/live"
Result = TypeVar("Result")


class ModelServer:
    """What requests share: the model, the sample of what it is shown, and how many wait."""

    def __init__(
        self,
        model: RunningModel,
        live: LiveSample | None,
        hosts: frozenset[str],
        token: str = "",
    ) -> None:
        """Share what all requests need.

        `hosts` are names under which the program may be asked, and `token` what each request has to
        show; both are empty on a socket of files.
        """
        self.token = token
        self.bodies = BodyRoom()
        self.model = model
        self.live = live
        self.hosts = hosts
        self.listeners = 0
        self.stopping = asyncio.Event()
        self._waiting = 0
        self._one = asyncio.Semaphore(1)

    async def ask(self, question: Callable[[LeasedModel], Result]) -> Result:
        """Return what the model that runs now answers; raise `HTTPException` where too many ask."""
        return await self.take_turn(lambda: question(self.model.loaded()))

    async def take_turn(self, question: Callable[[], Result]) -> Result:
        """Return an answer once all that came before have theirs; raise as `ask` does."""
        self._check_queue()
        self._waiting += 1
        try:
            async with self._one:
                return await run_in_threadpool(question)
        finally:
            self._waiting -= 1

    @asynccontextmanager
    async def body_of(self, request: Request) -> AsyncIterator[bytes]:
        """Yield a request's body; raise `HTTPException` where there is no place or room for it."""
        self._check_queue()
        async with self.bodies.body_of(request) as body:
            yield body

    def _check_queue(self) -> None:
        if self._waiting >= MOST_WAITING:
            text = f"{MOST_WAITING} requests wait for the model; ask again in a moment."
            raise HTTPException(503, text, {"Retry-After": "1"})

    def sample(self, frame: bytes) -> None:
        """Keep a frame now and then, to compare a candidate with this model on it."""
        if self.live is None:
            return
        try:
            self.live.offer(frame)
        except StoreError as error:
            log.warning("%s", error)


def make_app(server: ModelServer) -> Starlette:
    """Return the program."""
    routes = [
        Route("/v1/model", _answer(server, _model)),
        Route("/v1/predict", _answer(server, _predict), methods=["POST"]),
        Route("/v1/segment", _answer(server, _segment), methods=["POST"]),
        Route("/v1/embed", _answer(server, _embed), methods=["POST"]),
        Route("/v1/events", _answer(server, _events)),
        Route("/v2", _answer(server, _server)),
        Route(_LIFE, _answer(server, _live)),
        Route("/v2/health/ready", _answer(server, _live)),
        Route("/v2/models/{name}", _answer(server, _metadata)),
        Route("/v2/models/{name}/ready", _answer(server, _ready)),
        Route("/v2/models/{name}/infer", _answer(server, _infer), methods=["POST"]),
        Route("/v2/models/{name}/versions/{version}", _answer(server, _metadata)),
        Route("/v2/models/{name}/versions/{version}/ready", _answer(server, _ready)),
        Route(
            "/v2/models/{name}/versions/{version}/infer", _answer(server, _infer), methods=["POST"]
        ),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _refused})


Endpoint = Callable[[ModelServer, Request], Awaitable[Response]]


def _answer(server: ModelServer, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    async def answered(request: Request) -> Response:
        _check_asker(server, request)
        try:
            return await endpoint(server, request)
        except NotFiniteError as error:
            return _error(422, f"frame: {error}; ask without it")
        except SampleError as error:
            return _error(400, str(error))
        except NoModelError as error:
            return _error(503, str(error))
        except LoadError as error:
            return _error(409, str(error))
        except ModelError as error:
            log.warning("%s: %s", request.url.path, error)
            return _error(500, str(error))

    return answered


def _check_asker(server: ModelServer, request: Request) -> None:
    if "origin" in request.headers:
        raise HTTPException(403, "Pages of a browser may not ask this program.")
    host = (request.url.hostname or "").lower()
    if server.hosts and host not in server.hosts:
        names = " or ".join(sorted(server.hosts))
        raise HTTPException(421, f"This program is not {host!r}; ask it as {names}.")
    if server.token and request.url.path != _LIFE:
        shown = request.headers.get("authorization", "").encode("utf-8", "replace")
        if not hmac.compare_digest(shown, f"Bearer {server.token}".encode()):
            text = (
                "Show the token of this home: `Authorization: Bearer` and the line of serve.token."
            )
            raise HTTPException(401, text, {"WWW-Authenticate": "Bearer"})


async def _model(server: ModelServer, _request: Request) -> Response:
    return _json(await server.ask(ServedModelReply.of))


async def _predict(server: ModelServer, request: Request) -> Response:
    most = _most(request)
    async with server.body_of(request) as frame:
        answer = await server.take_turn(lambda: server.model.classify(frame))
        await run_in_threadpool(server.sample, frame)
    return _json(ClassReply.of(answer, most))


async def _segment(server: ModelServer, request: Request) -> Response:
    async with server.body_of(request) as frame:
        reply = await server.ask(lambda model: MaskReply.of(model.segment(frame)))
        await run_in_threadpool(server.sample, frame)
    return _json(reply)


async def _embed(server: ModelServer, request: Request) -> Response:
    async with server.body_of(request) as frame:
        return _json(await server.ask(lambda model: FeatureReply.of(model.embed(frame))))


async def _events(server: ModelServer, _request: Request) -> Response:
    if server.listeners >= MOST_LISTENERS:
        raise HTTPException(503, f"{MOST_LISTENERS} programs listen already.")
    return EventSourceResponse(_told(server))


async def _told(server: ModelServer) -> AsyncIterator[dict[str, str]]:
    """Yield the model that runs, and each one that follows it."""
    server.listeners += 1
    try:
        former = ""
        while not server.stopping.is_set():
            reply = await run_in_threadpool(lambda: ServedModelReply.of(server.model.loaded()))
            if reply.manifest != former:
                former = reply.manifest
                yield {"event": "model", "data": reply.model_dump_json()}
            try:
                await asyncio.wait_for(server.stopping.wait(), LOOK_SECONDS)
            except asyncio.TimeoutError:
                continue
    finally:
        server.listeners -= 1


async def _server(_server: ModelServer, _request: Request) -> Response:
    return JSONResponse(open_inference.server_metadata())


async def _live(_server: ModelServer, _request: Request) -> Response:
    return Response()


async def _ready(server: ModelServer, request: Request) -> Response:
    await server.ask(lambda model: _check_name(request, model))
    return Response()


async def _metadata(server: ModelServer, request: Request) -> Response:
    def told(model: LeasedModel) -> open_inference.ModelMetadata:
        _check_name(request, model)
        return open_inference.metadata_of(model)

    return _json(await server.ask(told))


async def _infer(server: ModelServer, request: Request) -> Response:
    def inferred(model: LeasedModel) -> bytes:
        _check_name(request, model)
        open_inference.check_size(model, body)
        try:
            asked = open_inference.InferRequest.model_validate_json(body)
        except ValidationError as error:
            raise HTTPException(400, f"{explain(error)}.") from error
        return _written(open_inference.infer(model, asked))

    # What such a body may become is far larger than it is: one at a time, and aside from the loop.
    async with server.body_of(request) as body:
        return Response(await server.ask(inferred), media_type="application/json")


def _check_name(request: Request, model: LeasedModel) -> None:
    name, wanted = request.path_params["name"], request.path_params.get("version")
    if name != open_inference.NAME:
        raise HTTPException(404, f"There is no model {name!r}; ask {open_inference.NAME!r}.")
    runs = str(model.manifest.version)
    if wanted is not None and wanted != runs:
        raise HTTPException(404, f"Version {wanted} does not run; {runs} does.")


def _most(request: Request) -> int:
    text = request.query_params.get("most", "5")
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:6]) <= 10_000:
        raise HTTPException(400, f"most: {text[:20]!r}; give a number of classes from 1 on.")
    return int(text[:6])


def _json(reply: BaseModel) -> Response:
    return Response(_written(reply), media_type="application/json")


def _written(reply: BaseModel) -> bytes:
    return reply.model_dump_json(exclude_none=True).encode()


def _error(status: int, text: str) -> Response:
    return JSONResponse(ErrorReply(error=text).model_dump(), status)


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "the handler is of these"
    answer: Any = ErrorReply(error=error.detail).model_dump()
    return JSONResponse(answer, error.status_code, headers=error.headers)
