"""Python programs of the peers, each in a virtual environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Peer:
    """A framework beside ours."""

    requirement: str
    module: str
    """Imported to see whether it is installed."""
    pythons: tuple[str, ...] = ()
    """Programs of which the first that is there makes the environment; ours if empty."""


PEERS = {
    "pfl": Peer("pfl==0.6.0", "pfl"),
    "flwr": Peer("flwr[simulation]", "flwr"),
    "fluke": Peer("fluke-fl", "fluke.algorithms.fedavg"),
    "blazefl": Peer(
        "blazefl>=3", "blazefl.contrib.fedavg", ("python3.14t", "python3.15t", "python3.14")
    ),
}
"""By the name of the environment."""


@cache
def python_of(name: str, folder: Path, torch: str) -> Path | None:
    """Return a peer's Python, installed if need be; None, with a message, if it cannot be.

    `torch` is the requirement of torch that is installed with it.
    """
    peer, python = PEERS[name], folder / name / "bin" / "python"
    check = [str(python), "-c", f"import torch, {peer.module}"]
    if python.exists() and _said(check) is None:
        return python
    base = _base(peer)
    if base is None:
        return _skipped(peer, f"none of {', '.join(peer.pythons)} is on the PATH")
    sys.stdout.write(f"installing {peer.requirement} into {folder / name}\n")
    sys.stdout.flush()
    install = [str(python), "-m", "pip", "install", "--quiet", torch, peer.requirement]
    for command in ([base, "-m", "venv", str(folder / name)], install, check):
        trouble = _said(command)
        if trouble is not None:
            return _skipped(peer, trouble)
    return python


def _base(peer: Peer) -> str | None:
    if not peer.pythons:
        return sys.executable
    return next((found for found in map(shutil.which, peer.pythons) if found), None)


def _skipped(peer: Peer, why: str) -> None:
    sys.stdout.write(f"skipped: {peer.requirement} cannot be installed here: {why}\n")


def _said(command: Sequence[str]) -> str | None:
    """Return the last words of a command that failed; None if it did not."""
    quiet = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=quiet)
    if not done.returncode:
        return None
    return (done.stderr or done.stdout).strip().rpartition("\n")[2] or f"exit {done.returncode}"
