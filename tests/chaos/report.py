"""What was done to a fleet in one run, and what became of its promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.chaos.checks import Broken
from tests.chaos.errors import ChaosError


@dataclass(frozen=True)
class ChaosReport:
    """One disturbed run."""

    seed: int
    scenario: str
    """Title of the scenario."""
    done: Mapping[str, int]
    """What was done to the fleet: kinds of trouble, and how often."""
    broken: tuple[Broken, ...]
    """Promises that were broken; none in a good run."""
    fleet_seconds: float
    """By the fleet's clock."""
    slowest_seconds: float
    """By the fleet's clock, from a trouble, or from what was asked for, to everything's end."""
    seconds: float
    """Of this machine."""

    def failure(self, again: str) -> ChaosError:
        """Return the error that names seed, promises and, with the command `again`, the repeat."""
        told = "; ".join(map(str, self.broken))
        number = f"{len(self.broken)} promise{'s' if len(self.broken) > 1 else ''}"
        return ChaosError(f"chaos: seed {self.seed} broke {number}: {told}; `{again}` repeats it")

    def __str__(self) -> str:
        """Return the troubles in one line."""
        troubles = ", ".join(f"{number} {name}" for name, number in sorted(self.done.items()))
        return f"seed {self.seed}, {self.scenario}: {troubles or 'no trouble'}"
