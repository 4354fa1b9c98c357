"""`fleetledger agent run` in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 300.0
"""Seconds after which a program that should end has not."""


class AgentProcess:
    """One run of the program; what it says goes into `log` in its home."""

    started: ClassVar[list[AgentProcess]] = []

    def __init__(self, home: Path) -> None:
        self.log = (home / "log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fleetledger", "agent", "run", "--home", str(home)],
            cwd=ROOT,
            stdout=self.log,
            stderr=self.log,
        )

        self.started.append(self)

    @classmethod
    def kill_all(cls) -> None:
        """End what a test that failed has left running."""
        for agent in cls.started:
            agent.process.kill()
            agent.process.wait()
            agent.log.close()
        cls.started.clear()

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)
