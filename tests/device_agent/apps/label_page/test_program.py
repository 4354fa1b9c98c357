"""`agent label` as people start it."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.device_agent.apps.label_page.application import PROGRAM, LabelDesk, make_app
from fleetledger.device_agent.cli.commands import app
from fleetledger.device_agent.errors import MissingError
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.transport.errors import ListenError
from fleetledger.transport.pages.people import own_name
from tests.device_agent.models.inbox.doubting import a_home


def run(home: Path, *words: str) -> str:
    done = CliRunner().invoke(app, ["label", "--home", str(home), *words], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_another_link_lets_in_to_the_program_that_runs(tmp_path: Path) -> None:
    home = a_home(tmp_path)
    link = run(home.folder, "--link", "--port", "9000")
    address, _, secret = link.strip().partition("/login?token=")
    assert address == "http://127.0.0.1:9000"
    found = make_app(LabelDesk(AgentHome.open(home.folder))).state.doors
    person = found.links.consume(secret, 10**18)
    assert person is not None
    assert person.name == own_name()
    assert secret not in (home.folder / f"{PROGRAM}-links.json").read_text()


def test_without_its_extra_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "jinja2",
        "fleetledger.device_agent.apps.label_page.program",
        "fleetledger.transport.pages.server",
    ):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingError, match=r"\[label\]"):
        run(a_home(tmp_path).folder)


def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ListenError, match="--tls-key"):
        run(a_home(tmp_path).folder, "--tls-cert", "x.pem")


def test_a_port_that_another_program_has_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(ListenError, match="--port"):
            run(a_home(tmp_path).folder, "--port", port)
