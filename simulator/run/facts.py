"""`run.json`: where and when a run was made, from which data, and how far it came."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError
from typing_extensions import Self

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.message import explain
from fleetledger.schemas.values import Digest
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.run import provenance
from fleetledger.simulator.run.durable import replace_file
from fleetledger.simulator.run.provenance import SourceState

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
    command: str
    """Command line of the process."""
    sources: tuple[SourceState, ...]
    """Checkouts of git: of the folder where it began, and of fleetledger's own, if it is in one."""


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
            machine=provenance.machine(),
            versions=provenance.versions(),
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
        changes = {
            "state": state,
            "problem": problem,
            "sessions": (*self.sessions[:-1], last),
            "machine": {**self.machine, **provenance.computing()},
        }
        return self.model_copy(update=changes)

    @property
    def place(self) -> dict[str, str | int | float]:
        """Machine, threads, versions, and what the last process was begun with, in one table."""
        last = self.sessions[-1]
        commits = {f"commit of {source.name}": str(source) for source in last.sources}
        how = {**self.machine, **provenance.computing(), **self.versions}
        return {**how, **commits, "command": last.command}

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
    return RunSession(
        began=_now(),
        release=release(),
        command=provenance.command_line(),
        sources=provenance.sources(),
    )


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
