"""A proxy that may end at any instant: the real one, with its store and its scoring."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fleetledger.coordinator.proxy.decision import Input
from fleetledger.coordinator.proxy.settings import ProxyHomeSettings
from fleetledger.coordinator.proxy.shell import ProxyProgram, ProxySurroundings
from fleetledger.schemas.envelope import PROXY, Sender
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import FleetId
from fleetledger.simulator.virtual.proxy import PAUSE_SECONDS, in_fleet_time
from fleetledger.simulator.virtual.seeds import seeded_boot
from fleetledger.transport.results import JobQueue
from fleetledger.transport.transfer import Party
from tests.chaos.crashable import Crashable, FaultyWorld


class SlowScoring(JobQueue[Input]):
    """Slow scoring, so that anything may happen before it ends."""

    def __init__(
        self, wake: Callable[[], None], later: Callable[[Callable[[], None]], None]
    ) -> None:
        super().__init__(wake, "scoring")
        self._later = later

    def submit(self, job: Callable[[], Input], thread: str = "") -> None:
        """Do a job later, after those before it."""
        self._later(lambda: self.put(in_fleet_time(job())))


class CrashableProxy(Crashable):
    """The proxy that lives in `home`, which is made if it is missing."""

    def __init__(self, world: FaultyWorld, home: Path, fleet: FleetId) -> None:
        home.mkdir(mode=0o700)
        super().__init__(world, PROXY, home)
        self._home = home
        self._fleet = fleet
        self._shell: ProxyProgram | None = None

    def begin(self) -> None:
        """Put the proxy together, and let it connect."""
        boot = seeded_boot(self.world.troubles.seed, self.name, self.runs)

        def sender() -> Sender:
            return Sender(self._fleet, PROXY, boot)

        endpoint = self.endpoint(self._step, PAUSE_SECONDS)
        control = self.connection("control", endpoint)
        ordinary = self.exchange(Party(FleetTopics(self._fleet), sender(), PROXY))
        branch = self.exchange(Party(FleetTopics(self._fleet, "proxy"), sender()))
        scoring = SlowScoring(control.wake, lambda act: self.later("scoring", act))
        around = ProxySurroundings(sender(), control, ordinary, branch, scoring, self.clock)
        self._shell = shell = ProxyProgram(self._home, ProxyHomeSettings(fleet=self._fleet), around)
        shell.begin()
        endpoint.ask()

    def lose_disk(self) -> None:
        """Keep it: its images cannot be had again."""

    def let_go(self) -> None:
        """Close the database."""
        if self._shell is not None:
            self._shell.close()
        self._shell = None

    def _step(self) -> float:
        shell = self._shell
        assert shell is not None
        while shell.step(0):
            pass
        return shell.wake_at
