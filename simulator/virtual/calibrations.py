"""What `engine.training = "auto"` has measured on this machine, kept for later runs.

A small file in the cache folder for each kind of work and machine: how long an agent's batches took
alone and in a stack, and with which torch and how many threads. A file that was written with others
is stale, one that does not say this is damaged; both are told in the log, and measured anew.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, ValidationError

from fleetledger.device_agent.home.store.blobs import write_durably
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.message import explain
from fleetledger.schemas.values import Digest
from fleetledger.simulator.datasets.cache_folder import cache_folder
from fleetledger.simulator.run.provenance import machine

if TYPE_CHECKING:
    from fleetledger.learning.training.calibration import Calibration, Kind

_MOST_FILES = 500
"""Kinds of work that are remembered; the one that was measured longest ago makes room."""
_MOST_BYTES = 1 << 16
_AGAIN = "it is measured again"

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Facts = Mapping[str, str | int]

log = logging.getLogger("simulator.calibrations")


class KeptCalibration(Strict):
    """A file."""

    format: Literal[1] = 1
    kind: Facts
    """Of the work and of the machine."""
    versions: Facts
    loop_seconds: Seconds
    stack_seconds: Seconds


@dataclass(frozen=True)
class CalibrationFolder:
    """The folder, as `learning.training` asks for it."""

    folder: Path

    @classmethod
    def of_user(cls) -> CalibrationFolder:
        """Return that of the cache."""
        return cls(cache_folder("training-calibrations"))

    def find(self, kind: Kind, versions: Kind) -> Calibration | None:
        """Return what was measured with these versions; None where nothing was, with a word."""
        from fleetledger.learning.training.calibration import Calibration  # noqa: PLC0415 - needs torch

        here = _on_this_machine(kind)
        path = self._path(here)
        try:
            with path.open("rb") as file:
                kept = KeptCalibration.model_validate_json(file.read(_MOST_BYTES))
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            why = explain(error) if isinstance(error, ValidationError) else error.strerror
            log.warning("%s: is damaged (%s); %s", path, why, _AGAIN)
            return None
        if kept.kind != here:
            log.warning("%s: is of other work, or of another machine; %s", path, _AGAIN)
            return None
        if kept.versions != dict(versions):
            log.warning("%s: is stale: %s; %s", path, _changes(kept.versions, versions), _AGAIN)
            return None
        return Calibration(kept.loop_seconds, kept.stack_seconds)

    def keep(self, kind: Kind, versions: Kind, found: Calibration) -> None:
        """Keep what was measured; where that cannot be written, say so and go on."""
        here = _on_this_machine(kind)
        kept = KeptCalibration(
            kind=here, versions=dict(versions), loop_seconds=found.loop, stack_seconds=found.stack
        )
        path = self._path(here)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_durably(path, kept.model_dump_json(indent=1).encode())
            files = sorted(self.folder.glob("*.json"), key=lambda one: one.stat().st_mtime_ns)
            for old in files[:-_MOST_FILES]:
                old.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s: cannot be written: %s; %s next time", path, error.strerror, _AGAIN)

    def _path(self, kind: Facts) -> Path:
        return self.folder / f"{Digest.of(canonical_json(dict(kind)))}.json"


def _on_this_machine(kind: Facts) -> Facts:
    return {**kind, **_machine()}


@cache
def _machine() -> Facts:
    here = machine()
    return {name: here[name] for name in ("processor", "cores")}


def _changes(before: Facts, now: Facts) -> str:
    """Say what differs."""
    names = sorted({*before, *now})
    return ", ".join(
        f"{name} was {before.get(name)} and is {now.get(name)}"
        for name in names
        if before.get(name) != now.get(name)
    )
