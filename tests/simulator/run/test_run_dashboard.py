"""`--dashboard`: a run on pages while it goes."""

from __future__ import annotations

import re
import socket
from io import StringIO
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from fleetledger.coordinator.dashboard.pages import PAGES
from fleetledger.runtime.pip_command import pip_install
from fleetledger.simulator.engines.interface import Engine
from fleetledger.simulator.run import run_dashboard
from fleetledger.simulator.run.run_dashboard import RunDashboard
from fleetledger.simulator.run.runs import run_scenario
from fleetledger.simulator.scenario.loading import load_scenario

SHORT = ("engine.kind=inprocess", "engine.keys=false", "evaluation.on_devices=false")
SHORT += ("stages.classes=4", "stages.count=2", "method.settings.map_width=96")
SHORT += ("devices.count=2", "devices.partition.seeds=[]", "seeds=[3]", "engine.broker=auto")


def said(*changes: str, port: int | None = 0) -> str:
    text = StringIO()
    with RunDashboard(Console(file=text, width=200), load_scenario("demo", changes)) as dashboard:
        dashboard.start(port)
        dashboard.stay()  # for a moment, since this is no terminal
    return text.getvalue()


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("session")
def test_a_run_in_one_process_is_shown_from_its_ledger_alone(tmp_path: Path):
    text = StringIO()
    scenario = load_scenario("demo", SHORT)
    with RunDashboard(Console(file=text, width=200), scenario) as dashboard:
        dashboard.start(0)
        link = re.search(r"(http://\S+)(/login\?token=(\S+))", text.getvalue())
        browser = httpx.Client(base_url=link[1], timeout=60)
        seen = []

        def watched(*given) -> Engine:
            seen.append(browser.get(link[2]).status_code)
            return dashboard.make_engine(*given)

        run_scenario(scenario, tmp_path / "run", Console(file=text), watched)
        while browser.get(link[2]).status_code == 503:
            pass  # the ledger is there, and is looked for a few times in a second
        come = browser.post("/login", data={"token": link[3]}, headers={"origin": link[1]})
        assert (seen, come.status_code) == ([503], 303)
        for page in PAGES:
            if "{" not in page.path:
                answer = browser.get(page.path)
                assert answer.status_code == 200, answer.text
                assert "<h1" in answer.text
    with pytest.raises(httpx.TransportError):
        browser.get("/")


def test_a_dashboard_that_cannot_start_is_told_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = said(port=port)
    assert text.startswith(f"no dashboard: 127.0.0.1:{port}: cannot listen there")
    assert text.endswith("; the run goes on without it\n")


def test_a_missing_extra_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run_dashboard, "find_spec", lambda package: None)
    assert f"it needs starlette: {pip_install('dashboard')}" in said()


def test_what_is_trained_in_one_place_has_no_fleet_to_show(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run_dashboard, "JOINT", load_scenario("demo").method.name)
    assert "has no fleet" in said()
