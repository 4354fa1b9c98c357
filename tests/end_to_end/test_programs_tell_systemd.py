"""Each program tells systemd that it is ready and that it moves; none needs a broker for that."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.command_line import app
from tests.test_architecture import ROOT
from tests.transport.standalone import free_port

PATIENCE = 60.0


def set_up(folder: Path, program: str) -> list[str]:
    """Make a home that the program can run in; return its command."""
    port = str(free_port("127.0.0.1"))
    if program == "agent":
        words = ["agent", "init", "--device", "a", "--no-data"]
    else:
        words = ["coordinator", "init", "--no-learning", "--trial"]
    home = ["--home", str(folder / "home")]
    done = CliRunner().invoke(app, [*words, "--fleet", "mill", "--broker-port", port, *home])
    assert done.exit_code == 0, done.output
    if program == "dashboard":
        assert CliRunner().invoke(app, ["coordinator", "admit", "a", *home]).exit_code == 0
    verbs = {
        "agent": ["agent", "run"],
        "coordinator": ["coordinator", "serve"],
        "dashboard": ["dashboard", "--port", "0"],
    }
    return [sys.executable, "-m", "fleetledger", *verbs[program], *home]


@pytest.mark.parametrize("program", ["agent", "coordinator", "dashboard"])
def test_it_says_that_it_is_ready_and_goes_on_saying_that_it_moves(
    tmp_path: Path, program: str
) -> None:
    command = set_up(tmp_path, program)
    address = f"@fleetledger-{program}-{os.getpid()}"
    environment = {**os.environ, "NOTIFY_SOCKET": address, "WATCHDOG_USEC": "400000"}
    environment.pop("WATCHDOG_PID", None)
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener,
        (tmp_path / "log").open("wb") as log,
    ):
        listener.bind(f"\0{address[1:]}")
        listener.settimeout(PATIENCE)
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            assert [listener.recv(100) for _ in range(3)] == [
                b"READY=1",
                b"WATCHDOG=1",
                b"WATCHDOG=1",
            ], (tmp_path / "log").read_text()
        finally:
            process.terminate()
            process.wait(PATIENCE)
