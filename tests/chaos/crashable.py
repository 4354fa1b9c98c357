"""A program that may end between any two of its effects, and is started again from its disk."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from fleetledger.simulator.virtual.loop import Endpoint, Loop
from fleetledger.transport.interface import OutgoingMessage
from fleetledger.transport.transfer import Party
from tests.chaos.disk import Disk, Drive
from tests.chaos.effects import CrashPoints, SimulatedCrash, Victim
from tests.chaos.exchange import SteppedExchange
from tests.chaos.faults import Troubles, dice
from tests.chaos.faulty_network import FaultyNetwork
from tests.chaos.network import VirtualConnection
from tests.chaos.volume import Volume

_SHORTEST_WORK, _LONGEST_WORK = 0.01, 3.0
"""Seconds that a piece of work takes."""
_WORK = "work"
"""What is drawn for: how long a piece of work takes."""


@dataclass(frozen=True)
class FaultyWorld:
    """What all programs of a run share."""

    loop: Loop
    network: FaultyNetwork
    points: CrashPoints
    troubles: Troubles
    shadows: Path
    """Where the model of the disk keeps what a power cut may bring back."""
    tally: Counter[str]
    """What was done to the fleet."""


class Crashable(ABC):
    """One program and its disk; `root` is the folder that a loss of power may tear."""

    def __init__(self, world: FaultyWorld, name: str, root: Path) -> None:
        self.name = name
        self.world = world
        self.on = False
        self.runs = 0
        """How often it was started."""
        self.disk: Disk
        self.victim = Victim(name, deque(world.troubles.crashes.get(name, ())))
        self.drive = Drive(
            Volume(root, world.shadows / name, dice(f"{world.troubles.seed}/disk/{name}")),
            world.points.point,
        )
        readings = world.loop.clock.readings
        self.clock = replace(readings, time_ns=lambda: readings.time_ns() + self._leapt_ns)
        """What its machine says; the calendar may be set forward or back."""
        self._leapt_ns = 0
        self._dice = dice(f"{world.troubles.seed}/{_WORK}/{name}")
        self._busy_until: dict[str, float] = {}
        self._connections: list[VirtualConnection] = []
        self._endpoints: list[Endpoint] = []

    @abstractmethod
    def lose_disk(self) -> None:
        """Come back without what was on the disk, if it is promised that this does no harm."""

    @abstractmethod
    def begin(self) -> None:
        """Put the program together from what is on its disk, and start it."""

    @abstractmethod
    def let_go(self) -> None:
        """Let go of what the kernel takes from a dead process: databases and locks."""

    def start(self) -> None:
        """Start the program, which may end at once."""
        self.on = True
        self.runs += 1
        self.victim.restart()
        self.alive(self.begin)

    def leap(self, seconds: float) -> None:
        """Set the calendar of its machine forward, or back."""
        self.world.tally["calendars set"] += 1
        self._leapt_ns += round(seconds * 1e9)

    def stop(self) -> None:
        """End the simulation of the program; what is on its disk stays."""
        if self.on:
            self._leave()

    def alive(self, act: Callable[[], object]) -> bool:
        """Let the program do something; return whether it lived through it."""
        try:
            with self.world.points.turn(self.victim):
                act()
        except SimulatedCrash:
            self._die()
            return False
        return True

    def endpoint(self, step: Callable[[], float], pause: float = 0.0) -> Endpoint:
        """Return an endpoint that steps this run of the program."""

        def stepped() -> float:
            due = [math.inf]
            self.alive(lambda: due.append(step()))
            return due[-1]

        endpoint = Endpoint(self.world.loop, stepped, pause)
        self._endpoints.append(endpoint)
        return endpoint

    def connection(
        self, role: str, endpoint: Endpoint | None, will: OutgoingMessage | None = None
    ) -> VirtualConnection:
        """Return a connection of this run of the program, whose events `endpoint` is told."""
        connection = self.world.network.connection(f"{self.name}.{role}", will=will)
        if endpoint is not None:
            connection.on_event = endpoint.ask
        self._connections.append(connection)
        return connection

    def exchange(self, party: Party) -> SteppedExchange:
        """Return an exchange of blocks of this run of the program."""
        connection = self.connection(party.role, None)
        return SteppedExchange(connection, party, self.world.loop, self.endpoint)

    def later(self, lane: str, act: Callable[[], None]) -> None:
        """Have a worker of this run do something, after what it was given before, in its time."""
        run, loop = self.runs, self.world.loop
        spread = _LONGEST_WORK / _SHORTEST_WORK
        seconds = _SHORTEST_WORK * spread ** self._dice.random()
        when = max(loop.clock.now, self._busy_until.get(lane, 0.0)) + seconds
        self._busy_until[lane] = when

        def done() -> None:
            if self.on and self.runs == run:
                self.alive(act)

        loop.at(when, done)

    def _die(self) -> None:
        crash = self.victim.fatal
        assert crash is not None
        self.world.tally["power cuts" if crash.power_cut else "kills"] += 1
        self.world.tally[f"ended at {self.victim.place}"] += 1
        self._leave()
        self.disk.crash(self.drive, power_cut=crash.power_cut)
        if crash.loses_disk:
            self.lose_disk()
        back = self.world.loop.clock.now + crash.down_seconds
        self.world.network.disturbed_until(back)
        self.world.loop.at(back, self.start)

    def _leave(self) -> None:
        self.on = False
        for endpoint in self._endpoints:
            endpoint.end()
        for connection in self._connections:
            self.world.network.end(connection)
        self._endpoints, self._connections = [], []
        self._busy_until = {}
        self.let_go()
