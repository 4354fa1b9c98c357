"""A coordinator that may end at any instant: the real one, with ledger, blobs and inbox."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from fleetledger.coordinator.assembly import (
    AssembledCoordinator,
    CoordinatorSurroundings,
    LocalCoordinator,
    assemble,
)
from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.due_times import next_due
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.models.job_runner import Job
from fleetledger.coordinator.program.operator import OperatorInbox
from fleetledger.coordinator.program.shell import OPERATOR_SECONDS, TICK_SECONDS, CommandInbox
from fleetledger.simulator.engines.inprocess.light.timed_coordinator import GROUP_SECONDS
from fleetledger.simulator.virtual.loop import Endpoint
from fleetledger.simulator.virtual.seeds import seeded_boot
from fleetledger.simulator.virtual.stopwatch import Stopwatch
from fleetledger.transport.interface import OutgoingMessage
from tests.chaos.crashable import Crashable, FaultyWorld
from tests.chaos.job_runner import InlineJobRunner
from tests.chaos.network import VirtualConnection


class SlowJobRunner(InlineJobRunner):
    """A job runner whose two workers are slow."""

    def __init__(
        self, on_finished: Callable[[], None], later: Callable[[str, Callable[[], None]], None]
    ) -> None:
        super().__init__(on_finished, Stopwatch())
        self._later = later

    def payload_job(self, job: Job) -> None:
        """Run a job about a payload later, after those before it."""
        now = super().payload_job
        self._later("payloads", lambda: now(job))

    def model_job(self, job: Job) -> None:
        """Run a job about a model later, after those before it."""
        now = super().model_job
        self._later("models", lambda: now(job))


class CrashableCoordinator(Crashable):
    """The coordinator that lives in `home`; its settings must be there."""

    def __init__(self, world: FaultyWorld, home: Path) -> None:
        super().__init__(world, "coordinator", home)
        self.home = home
        self._made: AssembledCoordinator | None = None
        self._inbox: CommandInbox | None = None
        self._job_runner: SlowJobRunner
        self._control: VirtualConnection
        self._endpoint: Endpoint | None = None

    @property
    def state(self) -> State | None:
        """What the program knows of the ledger; None while it is off."""
        return self._made.local.engine.core.state if self.on and self._made is not None else None

    @property
    def idle(self) -> bool:
        """Whether no model is being made, and nothing waits for the disk."""
        if not self.on or self._made is None:
            return False
        engine = self._made.local.engine
        return not engine.waits and not engine.core.live.making_model

    def begin(self) -> None:
        """Put the coordinator together, and let it connect."""
        self._endpoint = endpoint = self.endpoint(self._step, GROUP_SECONDS)
        self._made = made = assemble(
            self.home,
            CoordinatorSurroundings(
                connect=self._connect,
                exchange=lambda _, party: self.exchange(party),
                job_runner=self._open_job_runner,
                inbox=self._open_inbox,
                clock=self.clock,
                live=None,
                snapshots=False,
                boot=seeded_boot(self.world.troubles.seed, self.name, self.runs),
            ),
        )
        made.start()
        endpoint.ask()

    def lose_disk(self) -> None:
        """Keep it: a fleet without its ledger is another fleet."""

    def let_go(self) -> None:
        """Close the databases and give the ledger's lock back."""
        if self._made is not None:
            self._made.local.engine.close()
        if self._inbox is not None:
            self._inbox.close()
        self._made = self._inbox = None

    def command(self, command: Command) -> str:
        """Write a command into the inbox, as the command line does; return its ticket."""
        inbox = OperatorInbox(self.home)
        try:
            ticket = inbox.submit(command)
        finally:
            inbox.close()
        if self.on and self._endpoint is not None:
            self._endpoint.ask()
        return ticket

    def _connect(self, role: str, will: OutgoingMessage | None) -> VirtualConnection:
        self._control = self.connection(role, self._endpoint, will)
        return self._control

    def _open_job_runner(self, on_finished: Callable[[], None]) -> SlowJobRunner:
        self._job_runner = SlowJobRunner(on_finished, self._later_observed)
        return self._job_runner

    def _open_inbox(self, home: Path) -> CommandInbox:
        self._inbox = OperatorInbox(home)
        return self._inbox

    def _step(self) -> float:
        assert self._made is not None
        moved = self._made.shell.step(0)
        now = self.world.loop.clock.now
        assert self._inbox is not None
        if self._control.waits or not self._job_runner.idle:
            return now
        if moved:
            return now + TICK_SECONDS
        if self._inbox.waiting():
            return now + OPERATOR_SECONDS
        return self._next_due(self._made.local)

    def _next_due(self, local: LocalCoordinator) -> float:
        engine = local.engine
        now_ns = self.clock.time_ns() + engine.ahead_ns
        moment = next_due(local.rules, engine.core.state, engine.core.live, now_ns)
        seconds = math.inf if moment is None else (moment - now_ns) / 1e9
        return self.world.loop.clock.now + seconds

    def _later_observed(self, lane: str, act: Callable[[], None]) -> None:
        def observed() -> None:
            self.world.points.point("work")
            act()
            self.world.points.point("work")

        self.later(lane, observed)
