"""What a run leaves behind of its rollout: one `RolloutRecord` in `rollout.json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fleetledger.coordinator.topics.rollouts.gates import GateFinding
from fleetledger.coordinator.topics.rollouts.scope import Outcome
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.rollouts import Mode
from fleetledger.simulator.scenario.rollout import CandidateKind

End = Literal["finished", "rolled back", "paused", "aborted", "open"]


class ExposureStep(Strict):
    """From a moment on so many devices have run the candidate, or run it now."""

    seconds: float = Field(ge=0)
    """Of the fleet's clock, since the rollout was planned."""
    ever: int = Field(ge=0)
    """Devices that had run it by then."""
    running: int = Field(ge=0)
    """Devices that run it then."""


class PhaseRecord(Strict):
    """One phase of one group."""

    group: int = Field(ge=1)
    mode: Mode
    devices: int = Field(ge=0)
    """Members, with those of the groups before it."""
    opened_seconds: float = Field(ge=0)
    decided_seconds: float | None = None
    """Of its verdict; None where there was none."""
    outcome: Outcome | None = None
    gates: tuple[GateFinding, ...] = ()
    reason: str = ""
    evidence: int = Field(default=0, ge=0)
    """Ledger entries that the verdict was made of."""


class RolloutRecord(Strict):
    """One rollout of one seed."""

    candidate: CandidateKind
    version: int = Field(ge=1)
    former: int | None = None
    end: End
    reason: str = ""
    """Why it ended like this, in a sentence of the coordinator's."""
    devices: int = Field(ge=1)
    """Of the fleet."""
    members: int = Field(ge=0)
    """Whom the plan is about: those that its tags fit."""
    phases: tuple[PhaseRecord, ...]
    exposure: tuple[ExposureStep, ...]
    """Whenever a number changed, first of nobody."""
    seconds: float = Field(ge=0)
    """From the plan to the end, by the fleet's clock."""
    compared: int = Field(default=0, ge=0)
    """Comparisons that devices sent."""
    failed: int = Field(default=0, ge=0)
    """Devices on which the candidate failed."""
    unreached: int = Field(default=0, ge=0)
    """Devices without which a group went on."""
    wall_seconds: float = Field(default=0.0, ge=0)
    """Of the machine that simulated it."""

    @property
    def ever(self) -> int:
        """Devices that ran the candidate at any time."""
        return self.exposure[-1].ever if self.exposure else 0
