"""`coordinator status --watch` on a terminal draws the status again until it is interrupted."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from tests.coordinator.every_kind.facts import unpack


def test_it_is_drawn_again_until_interrupted(tmp_path: Path) -> None:
    home = unpack(tmp_path / "home")
    command = [sys.executable, "-m", "fleetledger", "coordinator", "status", "--watch", "0.2"]
    shown, terminal = pty.openpty()
    with subprocess.Popen(
        [*command, "--home", str(home)], stdin=terminal, stdout=terminal, stderr=terminal
    ) as program:
        os.close(terminal)
        drawn = b""
        while drawn.count(b"ledger:") < 3:
            drawn += os.read(shown, 65536)
        program.send_signal(signal.SIGINT)
        try:
            while os.read(shown, 65536):
                pass
        except OSError:  # the other side of the terminal is closed
            pass
        assert program.wait() == 0
    os.close(shown)
