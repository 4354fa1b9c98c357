"""The dashboard that is told which home to show, as a program."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from fleetledger.coordinator.dashboard.home_switch import HomeToShow, LedgerClock, StartedDashboard
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.settings import CoordinatorSettings, write_new
from fleetledger.schemas.values import FleetId
from tests.coordinator.dashboard.metrics.scraping import make_home

PATIENCE = 120.0


def fleet_of(home: Path, name: str) -> Path:
    """Make a coordinator's home with a ledger."""
    write_new(make_home(home), CoordinatorSettings(fleet=FleetId(name)))
    return home


class Program:
    """The program, and somebody who looks at its pages."""

    def __init__(self) -> None:
        command = [
            sys.executable,
            "-m",
            "fleetledger.coordinator.dashboard.home_switch",
            "--port",
            "0",
        ]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.started = StartedDashboard.model_validate_json(self.process.stdout.readline())
        self.browser = httpx.Client(base_url=self.started.url, timeout=PATIENCE)

    def show(self, home: Path) -> None:
        line = HomeToShow(home=home).model_dump_json()
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def come_in(self) -> httpx.Response:
        secret = self.started.link.partition("token=")[2]
        return self.browser.post(
            "/login", data={"token": secret}, headers={"origin": self.started.url}
        )

    def until(self, found: Callable[[httpx.Response], bool]) -> httpx.Response:
        """Ask for the first page until it is as wanted, and return it."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                answer = self.browser.get("/")
                if found(answer):
                    return answer
            except httpx.TransportError:
                pass  # between two homes
            assert time.monotonic() < end, answer.text
            time.sleep(0.05)


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    running = Program()
    yield running
    running.browser.close()
    running.process.stdin.close()
    running.process.wait(PATIENCE)
    running.process.stdout.close()


def test_what_is_not_there_yet_is_waited_for_in_words(program: Program, tmp_path: Path):
    program.show(tmp_path)
    first = program.browser.get(program.started.link.removeprefix(program.started.url))
    assert (first.status_code, first.headers["retry-after"]) == (503, "2")
    assert "The fleet is being made ready." in first.text
    assert program.browser.get("/fleet.json").json()["status"] == 503
    assert program.browser.get("/livez").status_code == 200


def test_the_link_is_good_when_the_fleet_is_there_and_the_session_for_the_next_fleet_too(
    program: Program, tmp_path: Path
):
    program.browser.get(program.started.link)
    program.show(fleet_of(tmp_path / "one", "orchard"))
    program.until(lambda answer: answer.status_code == 303)
    assert program.come_in().status_code == 303
    assert "orchard" in program.until(lambda answer: answer.status_code == 200).text
    program.show(fleet_of(tmp_path / "two", "vineyard"))
    program.until(lambda answer: "vineyard" in answer.text)


def test_a_fleet_with_a_clock_of_its_own_is_shown_at_the_time_of_its_newest_entry(tmp_path: Path):
    clock = LedgerClock(tmp_path)
    assert clock() == 0
    with ledger_of(make_home(tmp_path)) as ledger:
        assert clock() == ledger.checkpoint.time_ns


def test_a_port_that_another_has_is_told(program: Program):
    port = program.started.url.rpartition(":")[2]
    command = [
        sys.executable,
        "-m",
        "fleetledger.coordinator.dashboard.home_switch",
        "--port",
        port,
    ]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert run.returncode == 1
    assert "cannot listen there" in json.loads(run.stdout)["problem"]


def test_it_ends_when_its_parent_lets_go(program: Program):
    """The last test: it is the program of all."""
    program.process.stdin.close()
    assert program.process.wait(PATIENCE) == 0
