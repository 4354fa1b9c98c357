"""Results of a table, cell by cell: stored when a run has ended, and never run again.

A cell is a rate of a method that was tried (`rates`), a number of passes (`passes`), or a seed of
the table (`runs`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Cells = Mapping[str, Mapping[str, Any]]
"""Runs of one method, by rate, passes or seed."""


@dataclass(frozen=True)
class Step:
    """One run: of a method at a rate, on a seed of the table or, without one, to choose a rate."""

    method: str
    rate: float | None
    seed: int | None
    passes: int | None = None
    """Passes that are tried, or that a run of the table makes; None: as the method says."""

    @property
    def kind(self) -> str:
        """The part of the results that has it."""
        if self.seed is not None:
            return "runs"
        return "rates" if self.passes is None else "passes"

    @property
    def key(self) -> str:
        """Its name in that part."""
        if self.seed is not None:
            return f"seed {self.seed}"
        return f"{self.rate:g}" if self.passes is None else f"{self.passes}"

    @property
    def folder(self) -> str:
        """The name of its run folder."""
        return f"{self.method}-{self.kind}-{self.key.replace(' ', '-')}"


def known(results: Mapping[str, Any], kind: str, name: str) -> Cells:
    """Return the cells of a method."""
    found: Cells = results.get(kind, {}).get(name, {})
    return found


def added(results: Mapping[str, Any], step: Step, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results with a cell more, in place of an older one of the same name."""
    of_method = {**known(results, step.kind, step.method), step.key: found}
    return {**results, step.kind: {**results.get(step.kind, {}), step.method: of_method}}


def read(path: Path, claim: str) -> dict[str, Any]:
    """Return the results so far."""
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    return {"claim": claim, "machine": {}, "rates": {}, "runs": {}}


def write(path: Path, results: Mapping[str, Any]) -> None:
    """Write results, so that an interrupted write leaves the older ones."""
    path.parent.mkdir(parents=True, exist_ok=True)
    building = path.with_suffix(".part")
    building.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    building.replace(path)
