"""`run.json`: where and when a run was made, from which data, and how far it came."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import psutil
from pydantic import Field, ValidationError
from typing_extensions import Self

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.message import explain
from fleetledger.schemas.values import Digest
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.run.durable import replace_file

State = Literal["running", "stopped", "failed", "done"]


class Material(Strict):
    """What a seed was made from; if it changes, the run cannot be gone on with."""

    train: Digest
    test: Digest
    backbone: Digest


class RunSession(Strict):
    """One process that worked on the run."""

    began: str
    """Time of the clock on the wall, ISO 8601, UTC."""
    ended: str | None = None
    release: str
    """Version of fleetledger."""


class RunFacts(Strict):
    """Everything in `run.json`."""

    format: Literal[1] = 1
    state: State = "running"
    problem: str | None = None
    """Why it failed."""
    scenario: Digest
    """Of scenario.toml."""
    sessions: tuple[RunSession, ...] = Field(min_length=1)
    machine: dict[str, str | int | float]
    versions: dict[str, str]
    material: dict[int, Material]
    """By seed."""

    @classmethod
    def begin(cls, scenario: Digest, material: Mapping[int, Material]) -> Self:
        """Return the facts of a run that begins now, on this machine."""
        return cls(
            scenario=scenario,
            sessions=(_session(),),
            machine=machine(),
            versions=versions(),
            material=dict(material),
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the file; raise `RunError` where it does not fit."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise RunError(f"{path}: {explain(error)}; it is of another version") from error

    def gone_on(self) -> Self:
        """Return the facts when another process goes on with the run."""
        sessions = (*self.sessions, _session())
        return self.model_copy(update={"state": "running", "problem": None, "sessions": sessions})

    def ended(self, state: State, problem: str | None = None) -> Self:
        """Return the facts when this process leaves the run."""
        last = self.sessions[-1].model_copy(update={"ended": _now()})
        sessions = (*self.sessions[:-1], last)
        return self.model_copy(update={"state": state, "problem": problem, "sessions": sessions})

    @property
    def place(self) -> dict[str, str | int | float]:
        """Machine and versions in one table."""
        return {**self.machine, **self.versions}

    def write(self, path: Path) -> None:
        """Write the file, whole."""
        replace_file(path, self.model_dump_json(indent=1).encode())


def release() -> str:
    """Return the version of fleetledger that runs."""
    try:
        return version("fleetledger")
    except PackageNotFoundError:
        return "from a source folder"


def _session() -> RunSession:
    return RunSession(began=_now(), release=release())


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


_PACKAGES = (
    "fleetledger",
    "numpy",
    "onnx",
    "onnxruntime",
    "onnxruntime-gpu",
    "paho-mqtt",
    "pydantic",
    "sqlite-utils",
)


def machine() -> dict[str, Any]:
    """Return what decides how fast the demo is."""
    return {
        "system": platform.platform(),
        "processor": f"{platform.machine()}, {_processor_name()}",
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_mib": round(psutil.virtual_memory().total / 2**20),
    }


def _processor_name() -> str:
    """Return what the processor calls itself, where Linux says it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return "name unknown"
    names = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else "name unknown"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that compute or carry."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
