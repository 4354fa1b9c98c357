"""Which devices there are, and in which stages each is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fleetledger.runtime.count_words import count_of
from fleetledger.simulator.errors import PlanError
from fleetledger.simulator.scenario.sections import Absence, DeviceSettings


@dataclass(frozen=True)
class Roster:
    """Devices by number, from 1: the first stage has `first`, `joining` more come with each other.

    An absence delays the joining of a device or lets it leave.
    """

    first: int
    joining: int
    absences: Mapping[int, Absence]

    @classmethod
    def of(cls, settings: DeviceSettings) -> Roster:
        """Return the roster that a scenario asks for."""
        absences = {absence.device: absence for absence in settings.absences}
        return cls(settings.count, settings.groups.joining, absences)

    def known(self, stage: int) -> int:
        """Return how many devices there have been up to a stage, were none absent."""
        return self.first + self.joining * (stage - 1)

    def arrival(self, device: int) -> int:
        """Return the first stage in which a device is there."""
        late = device - self.first
        stage = 1 if late <= 0 else 2 + (late - 1) // self.joining
        return max(stage, self.absences[device].joins) if device in self.absences else stage

    def present(self, stage: int) -> tuple[int, ...]:
        """Return the devices of a stage, ascending."""
        return tuple(
            device
            for device in range(1, self.known(stage) + 1)
            if device not in self.absences or self.absences[device].present(stage)
        )

    def limited_to(self, owners: int, stages: int) -> Roster:
        """Return the roster where every device is one of `owners` natural owners.

        The first stage has at most so many. Raises `PlanError` when devices that join later, or
        that an absence names, would have no owner.
        """
        fewer = Roster(min(self.first, owners), self.joining, self.absences)
        highest = max((fewer.known(stages), *self.absences))
        if highest > owners:
            raise PlanError(
                f"devices: rule owner needs {count_of(highest, 'owner')} by stage {stages}, and "
                f"the data set has {owners}; give fewer to start with or to join, or take absences "
                "back"
            )
        return fewer
