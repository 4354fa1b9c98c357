"""The coordinator of a virtual world: the real shell on the real ledger, stepped by the loop.

It gathers messages for `GROUP_SECONDS` before it commits them together, as a real one does while
the disk writes the group before. Between messages it sleeps until time alone may change what its
rules decide (`coordinator.core.due_times`).
"""

from __future__ import annotations

import math
from pathlib import Path

from fleetledger.coordinator.assembly import CoordinatorSurroundings, assemble
from fleetledger.coordinator.core.due_times import next_due
from fleetledger.coordinator.core.live import Live
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.program.shell import OPERATOR_SECONDS
from fleetledger.schemas.envelope import COORDINATOR
from fleetledger.schemas.values import BootId, Digest
from fleetledger.simulator.virtual.exchange import VirtualExchange
from fleetledger.simulator.virtual.inbox import MemoryInbox
from fleetledger.simulator.virtual.job_runner import InlineJobRunner
from fleetledger.simulator.virtual.loop import Endpoint
from fleetledger.simulator.virtual.network import VirtualConnection
from fleetledger.simulator.virtual.world import VirtualWorld
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.interface import OutgoingMessage

GROUP_SECONDS = 0.02


class VirtualCoordinator:
    """A coordinator that lives in `home`; its settings must be there."""

    def __init__(self, world: VirtualWorld, home: Path, boot: BootId) -> None:
        self._world = world
        self._endpoint = Endpoint(world.loop, self._step, pause=GROUP_SECONDS)
        self._job_runner = InlineJobRunner(self._endpoint.ask, world.stopwatch)
        self.inbox = MemoryInbox(self._endpoint.ask, boot)
        self._made = assemble(
            home,
            CoordinatorSurroundings(
                connect=self._connect,
                exchange=lambda _, party: VirtualExchange(world, party),
                job_runner=lambda _: self._job_runner,
                inbox=lambda _: self.inbox,
                clock=world.loop.clock.readings,
                live=None,
                snapshots=False,
                boot=boot,
                # Nothing is lost here, and whoever hears a beat wakes for it.
                rules=lambda settings: settings.rules,
            ),
        )
        self._shell, self._exchange = self._made.shell, self._made.exchange
        self.engine, self.blobs = self._made.local.engine, self._made.local.blobs

    def _connect(self, role: str, will: OutgoingMessage | None) -> VirtualConnection:
        self._control = self._world.network.connection(f"{COORDINATOR}.{role}", will=will)
        self._control.on_event = self._endpoint.ask
        return self._control

    @property
    def state(self) -> State:
        """What the ledger says."""
        return self.engine.core.state

    @property
    def live(self) -> Live:
        """What the coordinator knows only while it runs."""
        return self.engine.core.live

    def start(self) -> None:
        """Connect."""
        self._made.start()
        self._endpoint.ask()

    def source(self, digest: Digest) -> BlockSource | None:
        """Return what devices can fetch under a digest."""
        return self._exchange.source(digest)

    def close(self) -> None:
        """Close the ledger and be stepped no more."""
        self._endpoint.end()
        self._made.close()

    def _step(self) -> float:
        next_tick = self._shell.next_tick
        moved = self._shell.step(0)
        ticked = self._shell.next_tick > next_tick
        now = self._world.loop.clock.now
        if self._control.waits or not self._job_runner.idle:
            return now
        if self.inbox.waiting():
            return now + OPERATOR_SECONDS
        if moved or not ticked:
            return self._shell.next_tick  # what depends on new entries is decided with a tick
        return self._next_due()

    def _next_due(self) -> float:
        clock = self._world.loop.clock
        rules = self._made.local.rules
        moment = next_due(rules, self.state, self.live, clock.time_ns())
        return clock.at(moment) if moment is not None else math.inf
