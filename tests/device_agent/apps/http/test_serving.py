"""An application in any language asks the active model over a socket, and hears of new ones."""

import asyncio
import http.client
import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.testclient import TestClient

from fleetledger.device_agent.apps.http.application import ModelServer, make_app
from fleetledger.device_agent.apps.http.bodies import BodyRoom
from fleetledger.device_agent.apps.http.open_inference import InferRequest
from fleetledger.device_agent.apps.http.server import token_of
from fleetledger.device_agent.models.inference.running_model import RunningModel
from fleetledger.simulator.engines.mqtt.processes import child_environment, fleetledger_command
from tests.device_agent import model_files as models
from tests.device_agent.models.inference.homes import ServingHome
from tests.device_agent.models.inference.test_running_model import exported

pytest.importorskip("uvicorn", reason="pip install 'fleetledger[serve]'")


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a socket file."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Program:
    """`fleetledger agent serve`, asked over its socket."""

    def __init__(self, home: Path, *words: str) -> None:
        self.path = home / "model.sock"
        self._process = subprocess.Popen(
            fleetledger_command("agent", "serve", "--home", str(home), *words),
            stdout=subprocess.PIPE,
            text=True,
            env=child_environment(),
        )
        assert self._process.stdout is not None
        self.said = self._process.stdout.readline()

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        connection = UnixConnection(self.path)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        return answer.status, json.loads(text) if text else None

    def stop(self) -> int:
        self._process.terminate()
        return self._process.wait(60)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(60)


@pytest.fixture
def home(tmp_path: Path) -> ServingHome:
    made = ServingHome(tmp_path / "agent-home")
    made.switch(exported(1))
    return made


@pytest.fixture
def program(home: ServingHome) -> Iterator[Program]:
    started = Program(home.folder)
    try:
        yield started
    finally:
        started.kill()


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A program that is only asked, and goes on answering with model 1."""
    made = ServingHome(tmp_path_factory.mktemp("asked") / "agent-home")
    made.switch(exported(1))
    started = Program(made.folder)
    try:
        yield started
    finally:
        started.kill()


def test_pictures_get_classes_and_the_version_that_said_so(
    home: ServingHome, program: Program
) -> None:
    assert program.said.startswith("model 1 answers at ")
    status, model = program.ask("GET", "/v1/model")
    assert (status, model["version"], model["answers"]) == (200, 1, "sample")
    status, answer = program.ask("POST", "/v1/predict?most=1", models.picture("dark"))
    assert (status, answer["version"], len(answer["classes"])) == (200, 1, 1)
    assert answer["classes"][0]["name"] == "dark"
    home.switch(exported(2))
    _, answer = program.ask("POST", "/v1/predict", models.picture("dark"))
    assert (answer["version"], answer["classes"][0]["name"]) == (2, "light")
    status, features = program.ask("POST", "/v1/embed", models.picture("dark"))
    assert status == 200
    assert len(features["features"]) == features["shape"][0]
    assert program.stop() == 0
    assert not program.path.exists()


def test_whoever_listens_hears_of_each_model(home: ServingHome, program: Program) -> None:
    connection = UnixConnection(program.path)
    connection.request("GET", "/v1/events")
    answer = connection.getresponse()
    assert version_told(answer) == 1
    home.switch(exported(2))
    assert version_told(answer) == 2
    connection.close()


def version_told(answer: http.client.HTTPResponse) -> int:
    while line := answer.readline():
        if line.startswith(b"data:"):
            return int(json.loads(line[5:])["version"])
    raise AssertionError("the stream ended")


def test_tensors_are_asked_by_the_open_inference_protocol(asked: Program) -> None:
    assert asked.ask("GET", "/v2/health/ready")[0] == 200
    status, metadata = asked.ask("GET", "/v2/models/active")
    assert (status, metadata["versions"]) == (200, ["1"])
    tensor = metadata["inputs"][0]
    shape = [2, *tensor["shape"][1:]]
    count = 1
    for size in shape:
        count *= size
    given = {"name": tensor["name"], "shape": shape, "datatype": "FP32", "data": [0.5] * count}
    status, answer = asked.ask(
        "POST", "/v2/models/active/infer", json.dumps({"id": "7", "inputs": [given]})
    )
    assert (status, answer["id"], answer["model_version"]) == (200, "7", "1")
    assert [one["shape"][0] for one in answer["outputs"]] == [2, 2]
    assert asked.ask("GET", "/v2/models/active/versions/9/ready")[0] == 404


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"shape": [1, 1]}, "shape [1, 1]"),
        ({"data": [0.5]}, "1 number for"),
        ({"data": [1e39] * 3}, "numbers"),
        ({"name": "other"}, "'other' is none"),
        ({"datatype": "INT64"}, "datatype INT64"),
    ],
)
def test_a_tensor_that_does_not_fit_is_refused_in_words(
    change: dict[str, Any], text: str, asked: Program
) -> None:
    _, metadata = asked.ask("GET", "/v2/models/active")
    tensor = metadata["inputs"][0]
    given = {"name": tensor["name"], "shape": [1, *tensor["shape"][1:]], "datatype": "FP32"}
    body = json.dumps({"inputs": [{**given, "data": [], **change}]})
    status, answer = asked.ask("POST", "/v2/models/active/infer", body)
    assert status == 400
    assert text in answer["error"]


def test_what_is_no_picture_or_too_large_or_from_a_browser_is_refused(asked: Program) -> None:
    status, answer = asked.ask("POST", "/v1/predict", b"no picture")
    assert (status, "error" in answer) == (400, True)
    headers = {"content-length": str(2**30)}
    assert asked.ask("POST", "/v1/predict", b"", headers)[0] == 413
    elsewhere = {"origin": "https://elsewhere.example"}
    assert asked.ask("GET", "/v1/model", headers=elsewhere)[0] == 403
    assert asked.ask("POST", "/v1/segment", models.picture("dark"))[0] == 409


def test_a_socket_that_nobody_listens_on_is_replaced_and_a_second_program_is_refused(
    home: ServingHome, program: Program
) -> None:
    second = Program(home.folder)
    assert (second.stop(), second.said) != (0, "")
    assert program.ask("GET", "/v1/model")[0] == 200
    program.kill()
    assert program.path.exists()
    third = Program(home.folder)
    assert third.ask("GET", "/v1/model")[0] == 200
    third.kill()


def test_shown_pictures_are_sampled_for_comparing_where_the_owner_says_so(
    home: ServingHome,
) -> None:
    file = home.folder / "agent.toml"
    text = file.read_text(encoding="utf-8")
    assert text.count("compare_live = 0\n") == 1
    file.write_text(text.replace("compare_live = 0\n", "compare_live = 2\n"))
    program = Program(home.folder)
    shown = models.picture("dark")
    try:
        for _ in range(3):
            assert program.ask("POST", "/v1/predict", shown)[0] == 200
        (kept,) = (home.folder / "state" / "live").iterdir()
        assert kept.read_bytes() == shown
    finally:
        program.kill()


def test_doubted_pictures_are_kept_where_the_owner_says_so(home: ServingHome) -> None:
    file = home.folder / "agent.toml"
    text = file.read_text(encoding="utf-8")
    assert text.count("keep = false\n") == 1
    file.write_text(text.replace("keep = false\n", "keep = true\ndoubt = 0.0001\n"))
    program = Program(home.folder)
    try:
        assert program.ask("POST", "/v1/predict", models.picture("dark"))[0] == 200
        assert list((home.folder / "inbox").glob("*.json"))
    finally:
        program.kill()


def test_an_application_asks_through_five_switches(home: ServingHome, program: Program) -> None:
    """A thousand frames over one connection; each is answered by one whole version."""
    shown, versions = models.picture("dark"), []
    connection = UnixConnection(program.path)
    for number in range(1000):
        if number % 150 == 149 and number < 750:
            home.switch(exported(number // 150 + 2))
        connection.request("POST", "/v1/predict?most=1", shown)
        answer = connection.getresponse()
        told = json.loads(answer.read())
        assert answer.status == 200, told
        assert told["classes"][0]["name"] == ("dark" if told["version"] % 2 else "light")
        versions.append(told["version"])
    connection.close()
    assert versions == sorted(versions)
    assert set(versions) == {1, 2, 3, 4, 5, 6}
    home.published.follow()
    assert len(home.folders()) == 2, "the program leases the one that it answers by"


def tensor_body(data: bytes) -> bytes:
    head = b'{"inputs":[{"name":"input","shape":[1,1,8,8],"datatype":"FP32","data":['
    return head + data + b"]}]}"


@pytest.mark.parametrize("filling", [b"[],", b"{},", b"0,", b'"",'])
def test_a_body_with_more_in_it_than_a_request_may_have_is_refused_before_it_is_parsed(
    served: TestClient, filling: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = []
    original = InferRequest.model_validate_json
    monkeypatch.setattr(
        InferRequest, "model_validate_json", lambda body: parsed.append(body) or original(body)
    )
    body = tensor_body(filling * 20_000 + filling[:-1])
    answer = served.post("/v2/models/active/infer", content=body)
    assert answer.status_code == 400
    assert "more than the 4,096 numbers that a request may have" in answer.json()["error"]
    assert parsed == []
    fits = served.post("/v2/models/active/infer", content=tensor_body(b",".join([b"0"] * 64)))
    assert (fits.status_code, len(parsed)) == (200, 1)


def test_a_body_without_room_is_refused_before_it_is_read() -> None:
    room = BodyRoom(most=100, together=150)

    def request(size: int | None) -> Request:
        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": b"x" * 80, "more_body": False}

        headers = [] if size is None else [(b"content-length", b"%d" % size)]
        return Request({"type": "http", "method": "POST", "headers": headers}, receive)

    async def ask() -> list[int]:
        found = []
        async with room.body_of(request(80)) as body:
            assert len(body) == 80
            for other in (request(80), request(None), request(101)):
                try:
                    async with room.body_of(other):
                        found.append(200)
                except HTTPException as error:
                    found.append(error.status_code)
        async with room.body_of(request(80)):
            found.append(200)
        return found

    assert asyncio.run(ask()) == [503, 503, 413, 200]


def test_over_tcp_only_who_shows_the_token_may_ask(tmp_path: Path) -> None:
    home = ServingHome(tmp_path)
    home.switch(exported(1))
    token = token_of(tmp_path)
    assert token_of(tmp_path) == token
    assert (tmp_path / "serve.token").stat().st_mode & 0o777 == 0o600
    with RunningModel.open(tmp_path) as model:
        server = ModelServer(model, None, frozenset({"localhost"}), token)
        client = TestClient(make_app(server), "http://localhost")
        for headers in (
            {},
            {"Authorization": "Bearer guess"},
            {"Authorization": "Bearer é".encode()},
        ):
            assert client.get("/v1/model", headers=headers).status_code == 401
        shown = {"Authorization": f"Bearer {token}"}
        assert client.get("/v1/model", headers=shown).status_code == 200
        assert client.get("/v2/health/live").status_code == 200


@pytest.fixture
def served(tmp_path: Path) -> Iterator[TestClient]:
    home = ServingHome(tmp_path)
    home.switch(models.exported(1))
    with RunningModel.open(tmp_path) as model:
        yield TestClient(make_app(ModelServer(model, None, frozenset())), "http://localhost")
