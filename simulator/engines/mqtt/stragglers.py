"""Agents that answer late: they are paused while a stage opens, and go on after their delay."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from threading import Timer

from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.mqtt.processes import Child
from fleetledger.simulator.engines.mqtt.programs import Programs
from fleetledger.simulator.plan.fleet_plan import StagePlan

LONGEST_DELAY_SECONDS = 3.0
"""The fleet's clock is the clock on the wall, so nobody is later than this."""


@dataclass(frozen=True)
class Straggler:
    """A paused agent, and the seconds after which it goes on."""

    agent: Child
    seconds: float

    def go_on_later(self) -> None:
        """Begin its delay."""
        delay = Timer(self.seconds, self.agent.resume)
        delay.daemon = True
        delay.start()


def hold_up(programs: Programs, stage: StagePlan, there: Iterable[DeviceId]) -> list[Straggler]:
    """Pause the stragglers of a stage among the devices that are there."""
    late = [device for device in there if stage.devices[device].delay_seconds > 0]
    stragglers = [
        Straggler(
            programs.agent(device),
            min(stage.devices[device].delay_seconds, LONGEST_DELAY_SECONDS),
        )
        for device in late
    ]
    for straggler in stragglers:
        straggler.agent.pause()
    return stragglers
