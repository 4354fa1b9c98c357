"""Provenance of a run: machine, threads, GPU, versions, command line, and the state of sources."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from fleetledger.runtime.strict import Strict

_PACKAGES = (
    "fleetledger",
    "numpy",
    "scipy",
    "torch",
    "torchvision",
    "onnx",
    "onnxruntime",
    "onnxruntime-gpu",
    "ray",
    "paho-mqtt",
    "pillow",
    "pydantic",
    "safetensors",
    "sqlite-utils",
)
_HERE = Path(__file__).resolve()
_GROUPS = "fleetledger."
_LONGEST = 4_000
_SECONDS = 10.0
"""Longest that git or a GPU's driver are waited for."""


class SourceState(Strict):
    """A checkout of git that a run's code comes from."""

    name: str
    """Of its folder."""
    commit: str
    """SHA of HEAD."""
    changed: bool
    """Whether a tracked file differs from it, or git neither tracks nor ignores one."""

    def __str__(self) -> str:
        return f"{self.commit}{', changed since' if self.changed else ''}"


def sources() -> tuple[SourceState, ...]:
    """Return the checkouts of the current folder and of fleetledger, where these are in one."""
    tops = [_git(Path.cwd(), "rev-parse", "--show-toplevel")]
    if _git(_HERE.parent, "ls-files", "--error-unmatch", _HERE.name) is not None:
        tops.append(_git(_HERE.parent, "rev-parse", "--show-toplevel"))
    return tuple(filter(None, (_state(Path(top)) for top in dict.fromkeys(tops) if top)))


def command_line() -> str:
    """Return the command that this process was begun with."""
    return shlex.join(sys.orig_argv)[:_LONGEST]


def machine() -> dict[str, Any]:
    """Return what decides how fast a run is: system, processor, memory, GPUs."""
    found = {
        "system": platform.platform(),
        "processor": f"{platform.machine()}, {_processor_name()}",
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_mib": round(psutil.virtual_memory().total / 2**20),
    }
    driver = _said("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    return found | ({"gpus": "; ".join(driver.splitlines())} if driver else {})


def computing() -> dict[str, str | int]:
    """Return how this process has computed by now: threads, and CUDA where torch was imported."""
    found: dict[str, str | int] = {}
    threads = os.environ.get("OMP_NUM_THREADS")
    if threads:
        found["omp_num_threads"] = threads
    blas = _blas_threads()
    if blas:
        found["blas_threads"] = blas
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        found["torch_threads"] = torch.get_num_threads()
        found["cuda"] = torch.version.cuda or "none"
        if torch.cuda.is_available():
            found["cudnn"] = torch.backends.cudnn.version() or "none"
            found["gpu"] = torch.cuda.get_device_name()
    return found


def versions() -> dict[str, str]:
    """Return the versions of Python, and of packages that compute, carry, or add to fleetledger.

    The last have entry points in its groups.
    """
    adding = {
        point.dist.name
        for group in _groups()
        for point in importlib.metadata.entry_points(group=group)
        if point.dist is not None
    }
    found = {"python": platform.python_version()}
    for package in dict.fromkeys((*_PACKAGES, *sorted(adding))):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _groups() -> Iterator[str]:
    every = importlib.metadata.entry_points()
    yield from sorted(group for group in every.groups if group.startswith(_GROUPS))


def _processor_name() -> str:
    """Return what the processor calls itself, where Linux says it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return "name unknown"
    names = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else "name unknown"


def _blas_threads() -> int:
    """Return the threads of the largest pool for linear algebra; 0 where nobody tells."""
    try:
        from threadpoolctl import threadpool_info  # noqa: PLC0415 - an extra
    except ImportError:
        return 0
    pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    return max(pools, default=0)


def _state(top: Path) -> SourceState | None:
    """Return the state of a checkout; None of one without a commit."""
    commit = _git(top, "rev-parse", "--verify", "HEAD")
    if not commit:
        return None
    return SourceState(
        name=top.name, commit=commit, changed=_git(top, "status", "--porcelain") != ""
    )


def _git(folder: Path, *arguments: str) -> str | None:
    """Return what git says in a folder; None where it says no, or is not there."""
    return _said("git", "-C", str(folder), *arguments)


def _said(program: str, *arguments: str) -> str | None:
    """Return what a program prints; None where it fails, takes too long or is not there."""
    found = shutil.which(program)
    if found is None:
        return None
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(  # noqa: S603 - a program of the PATH, no shell
            [found, *arguments],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
