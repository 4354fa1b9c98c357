"""Programs of which one thread is made to end by an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 300.0
"""Seconds after which a program that should end has not."""

_PROGRAM = """\
import sys
def broken(*_, **__):
    raise OSError(28, "No space left on device")
{breaking}
from fleetledger.command_line import main
sys.argv = ["fleetledger", *sys.argv[1:]]
main()
"""
BREAKING = {
    "blocks": "from fleetledger.transport.fetches import Fetches; Fetches.requests = broken",
    "mqtt": "from fleetledger.transport.mqtt import MqttConnection; MqttConnection._open = broken",
}
"""By thread, what has its next turn raise."""


def run_broken(breaking: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of fleetledger until it ends by itself."""
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(breaking=breaking), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def assert_ended_with_a_sentence(done: subprocess.CompletedProcess[str], thread: str) -> None:
    """Check exit code and last words."""
    assert done.returncode == 1, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"fleetledger: the thread '{thread}"), done.stderr
    assert "No space left on device" in last
