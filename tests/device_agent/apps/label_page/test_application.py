"""What the page shows, does, and refuses, asked without a network."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path

import pytest
from PIL import Image
from starlette.testclient import TestClient

from fleetledger.device_agent.apps.label_page.application import LabelDesk, make_app
from fleetledger.device_agent.apps.label_page.images import SMALL_SIDE
from fleetledger.device_agent.apps.label_page.page import MOST_SHOWN
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.models.inbox.inbox import DoubtInbox
from fleetledger.schemas.values import Digest
from fleetledger.transport.pages.people import Person, Role
from tests.device_agent.models.inbox.doubting import LIMITS, a_home, doubt, scene

ADDRESS = "http://127.0.0.1:8789"
HERE = {"origin": ADDRESS}


@pytest.fixture
def home(tmp_path: Path) -> AgentHome:
    return a_home(tmp_path / "home")


def browser(home: AgentHome, *, inside: bool = True) -> TestClient:
    """Return the browser of the owner, who came in; else of somebody who did not."""
    app = make_app(LabelDesk(home))
    client = TestClient(
        app, base_url=ADDRESS, raise_server_exceptions=False, follow_redirects=False
    )
    if inside:
        doors = app.state.doors
        person = Person("ana", Role.OPERATOR)
        client.cookies.set(doors.cookie, doors.sessions.make(person, time.time_ns()))
    return client


def shown(text: str) -> list[str]:
    """Return the digests of the images of a page, in their order."""
    return re.findall(r'name="image" value="([0-9a-f]{64})"', text)


def files(home: AgentHome, name: str) -> list[str]:
    return sorted(path.stem for path in (home.data_folder / name).iterdir())


def test_the_most_doubted_comes_first_or_the_newest(home: AgentHome) -> None:
    images = doubt(home, 0, 1, 2)
    client = browser(home)
    text = client.get("/").text
    assert shown(text) == images
    assert "3 images wait for a name." in text
    assert "It is apple" in text
    assert "doubt 0.90, model 7" in text
    assert shown(client.get("/?order=new").text) == images[::-1]


def test_a_guess_that_is_no_class_here_has_no_button(home: AgentHome) -> None:
    doubt(home, 0, guess="fig")
    text = browser(home).get("/").text
    assert "It is fig" not in text
    assert "fig?" in text


def test_several_images_get_a_class_at_once_and_it_is_taken_back(home: AgentHome) -> None:
    first, second, third = doubt(home, 0, 1, 2)
    client = browser(home)
    answer = client.post("/", data={"image": [first, second], "class": "pear"}, headers=HERE)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert files(home, "pear") == sorted([first, second])
    text = client.get("/").text
    assert "2 images are pear now." in text
    assert shown(text) == [third]
    assert client.post("/undo?order=new", headers=HERE).headers["location"] == "/?order=new"
    assert files(home, "pear") == []
    assert len(shown(client.get("/").text)) == 3


def test_an_images_own_button_gives_what_the_model_said(home: AgentHome) -> None:
    first, second = doubt(home, 0, 1)
    fields = {"image": [second], "guess": first}
    assert browser(home).post("/", data=fields, headers=HERE).status_code == 303
    assert files(home, "apple") == [first]


def test_a_new_class_is_given_and_an_image_thrown_away(home: AgentHome) -> None:
    first, second = doubt(home, 0, 1)
    client = browser(home)
    fields = {"image": [first], "act": "new", "new": "quince"}
    assert client.post("/", data=fields, headers=HERE).status_code == 303
    assert "1 image is quince now, a new class." in client.get("/").text
    fields = {"image": [second], "act": "away", "new": ""}
    assert client.post("/", data=fields, headers=HERE).status_code == 303
    text = client.get("/").text
    assert "1 image thrown away." in text
    assert "No image waits for a name." in text
    assert files(home, "quince") == [first]


def test_what_is_refused_keeps_what_was_entered(home: AgentHome) -> None:
    first, second = doubt(home, 0, 1)
    fields = {"image": [second], "act": "new", "new": "Apple"}
    answer = browser(home).post("/", data=fields, headers=HERE)
    assert answer.status_code == 409
    assert "looks like apple, which is there" in answer.text
    assert 'value="Apple"' in answer.text
    assert re.findall(r'value="([0-9a-f]{64})" checked', answer.text) == [second]
    assert first in shown(answer.text)


def test_what_another_program_took_is_told(home: AgentHome) -> None:
    first, second = doubt(home, 0, 1)
    client = browser(home)
    DoubtInbox(home.inbox_folder, LIMITS).take(first, lambda *_: None)
    fields = {"image": [first, second], "class": "pear"}
    answer = client.post("/", data=fields, headers=HERE)
    assert "1 image was not there any more." in answer.text
    assert "1 image is pear now." in answer.text
    assert client.post("/", data={"guess": first}, headers=HERE).status_code == 409


@pytest.mark.parametrize("name", ["../../etc", ".ssh", "a/b", "\u202egnp", "", "x" * 200])
def test_a_hostile_name_makes_nothing(home: AgentHome, name: str) -> None:
    (image,) = doubt(home, 0)
    before = sorted(home.folder.rglob("*"))
    fields = {"image": [image], "act": "new", "new": name}
    assert browser(home).post("/", data=fields, headers=HERE).status_code == 409
    assert [path for path in sorted(home.folder.rglob("*")) if "label-" not in path.name] == before


def test_hostile_files_in_the_inbox_are_no_images_and_their_texts_are_harmless(
    home: AgentHome,
) -> None:
    (image,) = doubt(home, 0, guess="<script>alert(1)</script>\u202e")
    secret = home.folder / "secret"
    secret.write_bytes(b"secret")
    inbox = home.inbox_folder
    told = (inbox / f"{image}.json").read_text()
    other = Digest.of(b"secret")
    (inbox / f"{other}.json").write_text(told.replace(image, other))
    (inbox / f"{other}.png").symlink_to(secret)
    (inbox / "<b>.json").write_text(told)
    (inbox / "..png").write_bytes(b"x")
    client = browser(home)
    text = client.get("/").text
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert "&lt;script&gt;" in text
    for path in (other, f"{other}/small", "..%2f..%2fagent.toml", "agent.toml", "0" * 64):
        assert client.get(f"/images/{path}").status_code == 404
    (inbox / f"{image}.png").write_bytes(b"other bytes")
    assert client.get(f"/images/{image}").status_code == 404


def test_images_are_what_they_are_and_do_nothing_else(home: AgentHome) -> None:
    (image,) = doubt(home, 0)
    client = browser(home)
    for path in (f"/images/{image}", f"/images/{image}/small"):
        answer = client.get(path)
        assert answer.headers["content-type"] == "image/png"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert answer.headers["cache-control"].startswith("private")
        assert Digest.of(answer.content) == image


def test_a_large_image_is_small_in_the_list(home: AgentHome) -> None:
    (image,) = doubt(home, 0, side=1200)
    client = browser(home)
    small = client.get(f"/images/{image}/small")
    assert Image.open(io.BytesIO(small.content)).size == (SMALL_SIDE, SMALL_SIDE)
    assert Image.open(io.BytesIO(client.get(f"/images/{image}").content)).size == (1200, 1200)


def test_of_many_images_some_are_shown_and_the_others_counted(home: AgentHome) -> None:
    inbox = DoubtInbox(home.inbox_folder, LIMITS)
    for seed in range(MOST_SHOWN + 5):
        inbox.offer(scene(seed, 16), 0.9, "apple", 1)
    client = browser(home)
    text = client.get("/").text
    assert len(shown(text)) == MOST_SHOWN
    assert "5 more images come when these are done." in text
    assert client.get("/waiting.json").json()["images"] == MOST_SHOWN + 5


def test_a_digit_that_is_a_class_has_its_own_key(home: AgentHome) -> None:
    for name in ("1", "7", "0"):
        (home.data_folder / name).mkdir()
    doubt(home, 0)
    found = re.findall(r'name="class" value="(\w+)" data-key="(\d)"', browser(home).get("/").text)
    assert dict(found) == {"0": "0", "1": "1", "7": "7", "apple": "2", "pear": "3"}


def test_an_empty_inbox_says_how_images_come(home: AgentHome) -> None:
    assert "appears here by itself" in browser(home).get("/").text
    file = home.settings_file
    file.write_text(file.read_text().replace("keep = true", "keep = false"))
    text = browser(AgentHome.open(home.folder)).get("/").text
    assert "keep = true" in text


@pytest.mark.parametrize("path", ["/", "/waiting.json", "/images/{image}", "/images/{image}/small"])
def test_nobody_sees_an_image_who_did_not_come_in(home: AgentHome, path: str) -> None:
    (image,) = doubt(home, 0)
    answer = browser(home, inside=False).get(path.format(image=image))
    assert answer.status_code in {303, 401}
    assert image not in answer.text


def test_a_link_lets_in_once(home: AgentHome) -> None:
    doubt(home, 0)
    client = browser(home, inside=False)
    doors = client.app.state.doors  # type: ignore[attr-defined]
    secret = doors.links.make(Person("ana", Role.OPERATOR), time.time_ns())
    page = client.get(f"/login?token={secret}")
    assert "See the images" in page.text
    answer = client.post("/login", data={"token": secret, "next": "/"}, headers=HERE)
    assert "samesite=strict" in answer.headers["set-cookie"].lower()
    assert client.get("/").status_code == 200
    again = browser(home, inside=False).post("/login", data={"token": secret}, headers=HERE)
    assert again.status_code == 403
    assert "fleetledger agent label --link" in again.text


@pytest.mark.parametrize(
    "headers", [{}, {"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}]
)
def test_a_page_from_elsewhere_changes_nothing(home: AgentHome, headers: dict[str, str]) -> None:
    (image,) = doubt(home, 0)
    fields = {"image": [image], "class": "pear"}
    assert browser(home).post("/", data=fields, headers=headers).status_code == 403
    assert browser(home).post("/undo", headers=headers).status_code == 403
    assert files(home, "pear") == []


def test_a_name_of_somebody_elses_is_refused(home: AgentHome) -> None:
    answer = browser(home).get("/", headers={"host": "evil.example"})
    assert answer.status_code == 421
    assert "content-security-policy" in answer.headers


@pytest.mark.parametrize("body", ["image=x&class=pear", "image=" + "0" * 63, "a=1&" * 300])
def test_a_form_that_no_page_of_ours_sends_is_refused(home: AgentHome, body: str) -> None:
    headers = {**HERE, "content-type": "application/x-www-form-urlencoded"}
    assert browser(home).post("/", content=body, headers=headers).status_code in {409, 413}
