"""The coordinator of light agents that act: it hears in groups, and its messages take time.

What it retains for a device, the device hears whenever it comes. It gathers for `GROUP_SECONDS`
before it commits, as over a connection. What a worker makes of its orders is taken with the next
group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.requests import (
    AnnounceCoordinator,
    PruneBlobs,
    Request,
    SendToDevice,
    TakeBack,
)
from fleetledger.coordinator.ledger.blobs import prune_held
from fleetledger.coordinator.program.shell import TICK_SECONDS, births_spread
from fleetledger.schemas.envelope import COORDINATOR, Sender, encode
from fleetledger.schemas.message import Message
from fleetledger.schemas.presence import CoordinatorBirth
from fleetledger.schemas.topics import DownLeaf
from fleetledger.schemas.values import BootId, DeviceId, Digest
from fleetledger.simulator.engines.inprocess.light.coordinator import LightCoordinator
from fleetledger.simulator.engines.inprocess.light.timed_world import TimedWorld
from fleetledger.simulator.virtual.inbox import MemoryInbox
from fleetledger.simulator.virtual.loop import Endpoint

GROUP_SECONDS = 0.02


class ConnectedDevice(Protocol):
    """A device that is on."""

    @property
    def name(self) -> DeviceId:
        """Its name."""

    def hear(self, body: Message, size: int) -> None:
        """Take a message of so many bytes."""


class TimedCoordinator(LightCoordinator):
    """A coordinator that lives in `home`, stepped by the loop."""

    def __init__(self, world: TimedWorld, home: Path, boot: BootId) -> None:
        super().__init__(home, world.loop.clock, boot, world.stopwatch)
        self.boot = boot
        self.before_commit: Callable[[], None] = lambda: None
        """Called before what devices said is committed."""
        self.average = self.maker.make
        self._world = world
        self._endpoint = Endpoint(world.loop, self._step, pause=GROUP_SECONDS)
        self.inbox = self._inbox = MemoryInbox(self._endpoint.ask, boot)
        self._sender = Sender(self.fleet, COORDINATOR, boot)
        self._there: dict[DeviceId, ConnectedDevice] = {}
        self._birth: CoordinatorBirth | None = None
        self._waiting: dict[DeviceId, list[Message]] = {}
        """For devices that are off, and were on in this process."""
        self._retained: dict[DeviceId, dict[DownLeaf, Message]] = {}
        self._sizes: dict[str, tuple[Message, int]] = {}
        """Of the last message of each kind, since many devices get the same."""
        self._next_tick = 0.0
        self._heard: list[inputs.Input] = []
        self._small: dict[Digest, bytes] = {}

    def start(self) -> None:
        """Connect."""
        self.hear(inputs.CoordinatorConnected())

    def connect(self, device: ConnectedDevice) -> None:
        """Tell a device that has come what waits and what is retained for it, and then the rest."""
        self._there[device.name] = device
        waiting, retained = self._waiting.pop(device.name, []), self._retained.get(device.name, {})
        births = [] if self._birth is None else [self._birth]
        for body in (*waiting, *births, *retained.values()):
            self._tell(device.name, body)

    def disconnect(self, device: DeviceId, unread: Iterable[Message]) -> None:
        """Keep what a device has not read, and what it is sent, until it is back."""
        self._there.pop(device, None)
        self._waiting[device] = [*unread]

    def hear(self, happening: inputs.Input, payload: bytes | None = None) -> None:
        """Take what has arrived, with the payload that belongs to it."""
        if payload is not None:
            with self._stopwatch.phase("intake"):
                self._small |= self.blobs.stage([payload])
        self._heard.append(happening)
        self._endpoint.ask()

    def close(self) -> None:
        """Close the ledger and be stepped no more."""
        self._endpoint.end()
        super().close()

    def _step(self) -> float:
        now, before = self._clock.now, self.engine.ledger.size
        heard, self._heard = self._heard, []
        small, self._small = self._small, {}
        heard += self.inbox.waiting()
        ticks = now >= self._next_tick
        if ticks:
            self._next_tick = now + TICK_SECONDS
            heard.append(inputs.Tick())
        self.before_commit()
        requests = self.engine.process(heard, small)
        for request in requests:
            self._do(request)
        if self._heard:
            return now
        if not ticks or requests or self.engine.ledger.size > before:
            return self._next_tick  # what depends on new entries is decided with a tick
        due = self.next_due()
        return math.inf if due is None else due

    def _do(self, request: Request) -> None:
        match request:
            case SendToDevice(device, leaf, body, retain):
                if retain:
                    self._retained.setdefault(device, {})[leaf] = body
                self._tell(device, body)
            case TakeBack(device, leaf):
                self._retained.get(device, {}).pop(leaf, None)
            case AnnounceCoordinator(size):
                spread = births_spread(len(self.state.devices.admitted))
                self._birth = CoordinatorBirth(ledger_size=size, spread_seconds=spread)
                for device in self._there:
                    self._tell(device, self._birth)
            case PruneBlobs(digests):
                prune_held(self.engine.ledger, self.blobs.store, digests)
            case _:
                finished = self._carry_out(request)
                if finished is not None:
                    self._small |= finished.small_blobs
                    self._heard.append(finished.happening)

    def _tell(self, name: DeviceId, body: Message) -> None:
        device = self._there.get(name)
        if device is None:
            self.keep(name, body)
        else:
            size = self._size(body)
            self._world.carry(("to", name), lambda: device.hear(body, size))

    def keep(self, device: DeviceId, body: Message) -> None:
        """Keep a message for a device that was there, as a broker does for its session."""
        if device in self._waiting:
            self._waiting[device].append(body)

    def _size(self, body: Message) -> int:
        known = self._sizes.get(body.kind)
        if known is None or known[0] is not body:
            envelope = self._sender.seal(body, sent_ms=self._clock.time_ns() // 1_000_000)
            known = self._sizes[body.kind] = body, len(encode(envelope))
        return known[1]
