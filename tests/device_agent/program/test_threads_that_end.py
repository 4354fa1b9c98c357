"""An agent of which a thread ends: the program ends too, with a sentence; status says why."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.device_agent.cli.commands import app
from fleetledger.runtime.exit_codes import ExitCode
from tests.device_agent.scripted import write_settings
from tests.threads_that_end import BREAKING, assert_ended_with_a_sentence, run_broken

_JOBS = (
    "import fleetledger.device_agent.__main__ as program;"
    "from fleetledger.device_agent.program.device_jobs import LocalDeviceJobs;"
    "LocalDeviceJobs.answer = broken"
)


@pytest.mark.parametrize("thread", ["blocks", "mqtt", "worker"])
def test_an_agent_does_not_outlive_a_thread_that_it_needs(tmp_path: Path, thread: str) -> None:
    home = write_settings(tmp_path / "home", "[broker]\nhost = '127.0.0.1'\nport = 9\n")
    # The command makes way for `python -m fleetledger.device_agent`, which would not be broken.
    breaking = {**BREAKING, "worker": _JOBS}[thread] + (
        "; import os, fleetledger.device_agent.__main__ as agent"
        "; os.execv = lambda _program, words: sys.exit(agent.main(words[-1:]))"
    )
    done = run_broken(breaking, "agent", "run", "--home", str(home.folder))
    assert_ended_with_a_sentence(done, thread)
    told = CliRunner().invoke(app, ["status", "--home", str(home.folder)])
    assert told.exit_code == ExitCode.NOT_RUNNING
    assert f"has ended: the thread '{thread}" in told.output
