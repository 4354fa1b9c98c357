"""Python programs of the peers, each in a virtual environment of its own."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

REQUIREMENTS = {"pfl": "pfl==0.6.0", "flwr": "flwr[simulation]==1.41.0"}
"""What is installed into the environment of that name."""


def python_of(peer: str, folder: Path) -> Path | None:
    """Return the peer's Python, installing it if need be; None, with a message, if it cannot be."""
    python = folder / peer / "bin" / "python"
    if not _has(python, peer):
        sys.stdout.write(f"installing {REQUIREMENTS[peer]} into {folder / peer}\n")
        if not _install(python, peer, folder / peer):
            sys.stdout.write(f"skipped: {REQUIREMENTS[peer]} cannot be installed here\n")
            return None
    return python


def _has(python: Path, peer: str) -> bool:
    return python.exists() and _runs([str(python), "-c", f"import {peer}"])


def _install(python: Path, peer: str, folder: Path) -> bool:
    venv.create(folder, with_pip=True)
    return _runs([str(python), "-m", "pip", "install", "--quiet", REQUIREMENTS[peer]])


def _runs(command: list[str]) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
