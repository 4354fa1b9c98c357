"""A run on pages while it goes: a dashboard as a program beside it, which ends with it.

Whatever becomes of the dashboard, the run goes on.
"""

from __future__ import annotations

import select
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console
from typing_extensions import Self

from fleetledger.runtime.pip_command import pip_install
from fleetledger.simulator.engines.interface import Engine, Prepared, Watch
from fleetledger.simulator.run.engines import make_engine
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.trainer import JOINT
from fleetledger.transport.brokers.lifeline import interrupted_later

_NEEDED = ("starlette", "uvicorn", "sse_starlette", "prometheus_client", "jinja2")
_START_SECONDS = 60.0
"""For a program that imports a web server on a machine that is busy."""
_STOP_SECONDS = 5.0


class RunDashboard:
    """A dashboard of one run, or the word that there is none; leaving the block ends it."""

    def __init__(self, console: Console, scenario: Scenario) -> None:
        self._console = console
        self._scenario = scenario
        self._virtual = scenario.engine.kind != "mqtt"
        self._url = ""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, port: int | None) -> None:
        """Start it at `port` (None: the usual one, or any that is free), and tell its link."""
        problem = _lacking(self._scenario) or self._start(port)
        if problem:
            self._end()
            self._say(f"no dashboard: {problem}; the run goes on without it")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def make_engine(self, prepared: Prepared, folder: Path, watch: Watch) -> Engine:
        """Have the pages show a seed's fleet, and return its engine."""
        self._show(folder / "coordinator")
        return make_engine(prepared, folder, watch)

    def stay(self) -> None:
        """After the run: leave the pages there for a person at a terminal, until Ctrl-C."""
        if self._process is None or self._process.poll() is not None:
            return
        if self._console.is_terminal:
            self._say(f"dashboard: {self._url} shows how the run ended; Ctrl-C ends it")
            with suppress(KeyboardInterrupt):
                self._process.wait()

    def _start(self, port: int | None) -> str:
        """Start the program; return why there is none, or nothing."""
        from fleetledger.coordinator.dashboard.home_switch import StartedDashboard  # noqa: PLC0415 - needs an extra

        role = "viewer" if self._virtual else "operator"  # nobody there would carry a command out
        command = [
            sys.executable,
            "-m",
            "fleetledger.coordinator.dashboard.home_switch",
            "--role",
            role,
        ]
        command += [] if port is None else ["--port", str(port)]
        with interrupted_later():
            self._process = subprocess.Popen(  # noqa: S603 - our own command, no shell
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C reaches us alone
            )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _START_SECONDS)
        if not ready:
            return f"it said nothing for {_START_SECONDS:g} s"
        try:
            started = StartedDashboard.model_validate_json(self._process.stdout.readline())
        except ValidationError:
            return "it ended when it had begun"
        self._url = started.url
        if not started.problem:
            self._say(f"dashboard: {started.link} (this link works once)")
        return started.problem

    def _show(self, home: Path) -> None:
        if self._process is None:
            return
        from fleetledger.coordinator.dashboard.home_switch import HomeToShow  # noqa: PLC0415 - as above

        line = HomeToShow(home=home.absolute(), virtual=self._virtual).model_dump_json()
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):
            process.stdin.close()  # upon which it ends in order
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _lacking(scenario: Scenario) -> str:
    """Return what there is no dashboard without, and what to do; nothing where all is there."""
    if scenario.method.name == JOINT:
        return f"the method {JOINT} trains in one place, and has no fleet"
    missing = [package for package in _NEEDED if find_spec(package) is None]
    if missing:
        return f"it needs {missing[0]}: {pip_install('dashboard')}"
    return ""
