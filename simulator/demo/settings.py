"""What can be set about a demo run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from schemas.values import DeviceId, FleetId
from simulator.errors import DemoError

Form = Literal["exact", "compact"]
BrokerChoice = Literal["auto", "mosquitto", "amqtt"]
Opening = Literal["operator", "reports"]

FLEET = FleetId("digits")
REPORTS_SETTLE_SECONDS = 5.0
"""Without a further report, before a stage opens by itself; new folders come within one scan."""


@dataclass(frozen=True)
class Patience:
    """Seconds until the demo gives up on something; all far above what is usual."""

    start: float = 300.0
    """Until coordinator and agents have connected."""
    stage: float = 600.0
    """Until a stage is learned and its model runs everywhere."""


@dataclass(frozen=True)
class DemoSettings:
    """One demo run; the defaults are the demo of the README.

    Raises `DemoError` for numbers that no run can have.
    """

    out: Path
    form: Form = "compact"
    broker: BrokerChoice = "auto"
    seed: int = 0
    agents: int = 5
    stages: int = 5
    classes_per_stage: int = 2
    map_width: int = 1250
    """M, the width of the random map."""
    beta: float = 0.3
    """Concentration of the Dirichlet partition; smaller is more skewed."""
    opening: Opening = "operator"
    """Who opens the stages after the first: the operator, or the fleet when all devices have
    reported something new."""
    fleet: FleetId = FLEET
    patience: Patience = field(default_factory=Patience)

    def __post_init__(self) -> None:
        if not 1 <= self.agents <= 50:
            raise DemoError(f"agents: {self.agents}; give 1 to 50, each is a process of its own")
        if self.stages < 1 or self.classes_per_stage < 1:
            raise DemoError("stages: give at least one stage of at least one class")
        if self.seed < 0:
            raise DemoError(f"seed: {self.seed}; give 0 or more")

    @property
    def devices(self) -> tuple[DeviceId, ...]:
        """The agents' names."""
        return tuple(DeviceId(f"device-{number}") for number in range(1, self.agents + 1))
