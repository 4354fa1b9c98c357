"""Templates of a program stand before those that all share, and every text is harmless."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from jinja2 import UndefinedError
from starlette.applications import Starlette
from starlette.testclient import TestClient

from fleetledger.transport.pages.renderer import PageTemplates

TEMPLATES = PageTemplates("fleetledger.device_agent.apps.label_page")
FRAME = SimpleNamespace(place="<b>gate</b>", version="1", person=None, first_page="the images")


def problem(title: str) -> SimpleNamespace:
    return SimpleNamespace(title=title, text="")


def test_a_shared_template_stands_in_the_frame_of_its_program() -> None:
    text = TEMPLATES.draw("error.html", frame=FRAME, page=problem("That is not there."))
    assert "label.css" in text
    assert "pages.css" in text
    assert "To the images" in text


def test_texts_are_escaped_and_what_cannot_be_seen_is_written_out() -> None:
    text = TEMPLATES.draw("error.html", frame=FRAME, page=problem("<i>\u202e"))
    assert "&lt;b&gt;gate&lt;/b&gt;" in text
    assert "&lt;i&gt;\\u202e" in text


def test_a_name_that_nobody_gave_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        TEMPLATES.draw("error.html", frame=FRAME)


def test_files_of_both_are_served_under_addresses_of_their_content() -> None:
    client = TestClient(Starlette(routes=[TEMPLATES.mount()]))
    for name in ("label.js", "pages.css", "favicon.svg"):
        address = TEMPLATES.static_url(name)
        assert "?v=" in address
        answer = client.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert client.get("/static/dashboard.css").status_code == 404
    assert client.get("/static/..%2ftemplates/frame.html").status_code == 404
