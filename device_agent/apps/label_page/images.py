"""Images of the inbox, and of nowhere else: whole, or small for the list.

A browser gets them as images alone, whatever they hold: their type is told and not guessed, and
nothing of them runs.
"""

from __future__ import annotations

import io

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetledger.device_agent.models.inbox.inbox import DoubtInbox
from fleetledger.device_agent.models.inference.frames import picture_of
from fleetledger.learning.errors import SampleError
from fleetledger.runtime.errors import InvalidValueError
from fleetledger.schemas.values import Digest

SMALL_SIDE = 640
"""The longer side, in pixels, of an image in the list."""
_QUALITY = 85
_HEADERS = {
    "content-security-policy": "default-src 'none'; sandbox",
    "cache-control": "private, max-age=3600, immutable",
}
_MEDIA = {".png": "image/png", ".jpg": "image/jpeg"}


def image_routes(inbox: DoubtInbox) -> list[Route]:
    """Return the routes of images; they read files in threads."""

    def whole(request: Request) -> Response:
        return _answer(*_content(inbox, request.path_params["digest"]))

    def small(request: Request) -> Response:
        data, suffix = _content(inbox, request.path_params["digest"])
        # The inbox keeps small images as PNG.
        return _answer(data, suffix) if suffix == ".png" else _answer(_scaled(data), ".jpg")

    return [Route("/images/{digest}", whole), Route("/images/{digest}/small", small)]


def _answer(data: bytes, suffix: str) -> Response:
    return Response(data, media_type=_MEDIA[suffix], headers=_HEADERS)


def _content(inbox: DoubtInbox, text: str) -> tuple[bytes, str]:
    """Return what an image of the inbox holds, which is what its name says."""
    try:
        found = inbox.read(Digest(text))
    except InvalidValueError as error:
        raise HTTPException(404) from error
    if found is None:
        raise HTTPException(404)
    return found[1], found[0].suffix


def _scaled(data: bytes) -> bytes:
    try:
        picture = picture_of(data)
    except SampleError as error:
        raise HTTPException(404) from error
    picture.thumbnail((SMALL_SIDE, SMALL_SIDE))
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=_QUALITY)
    return file.getvalue()
