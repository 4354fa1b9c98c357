"""The coordinator's connection, where what devices say is subscribed by intake workers.

To the shell it is one connection: messages come from it, and are acknowledged to it. Those of the
shared filters come by way of the workers, and the broker has their acknowledgement from the worker
that holds them.

Somebody hears the devices at all times that it can be helped. The coordinator does until the broker
serves the first worker's subscription, and again once it serves none. What was said when the last
worker died went nowhere: devices are told to say it again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fleetledger.coordinator.models.payload_check import PayloadVerdict
from fleetledger.coordinator.program.workers.frames import CheckedBy, Committed
from fleetledger.coordinator.program.workers.processes import Handed, IntakeProcess, IntakeWorkers
from fleetledger.coordinator.topics.keys.state import KeysState
from fleetledger.coordinator.topics.lineages.state import LineagesState
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.problems import OpenProblem
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.topics import FleetTopics, UpLeaf
from fleetledger.transport import interface
from fleetledger.transport.meter import Meter

SHARED_LEAVES: tuple[UpLeaf, ...] = ("msg",)
"""What workers subscribe: what waits for a receipt. Births, deaths and heartbeats are few and cost
little, and the coordinator hears them itself."""


@dataclass(frozen=True)
class CheckedMessage(interface.IncomingMessage):
    """A message that a worker has looked at."""

    key: VerifyKey | None = None
    """The key that signed it for its topic; None where a worker could not tell."""
    verdict: PayloadVerdict | None = None
    """What the method says of the payload that is attached."""


@dataclass(frozen=True)
class _Place:
    worker: IntakeProcess
    number: int


@dataclass(frozen=True)
class Facts:
    """What workers are told so that they can check; asked by the thread that takes events."""

    topics: FleetTopics
    keys: Callable[[], KeysState]
    """Keys of devices."""
    lineages: Callable[[], LineagesState]
    """Of which a frozen model leads where a method of statistics checks payloads."""


class SharedConnection:
    """A connection and its workers; see `transport.interface.Connection`."""

    def __init__(self, control: interface.Connection, workers: IntakeWorkers, facts: Facts) -> None:
        self._control = control
        self._workers = workers
        self._facts = facts
        self._shared = frozenset(facts.topics.from_every_device(*SHARED_LEAVES))
        self._told: object = None
        """The frozen model whose payloads the workers check."""
        self._committed: defaultdict[IntakeProcess, list[int]] = defaultdict(list)
        self._workers_first = False
        self._direct = True
        """Whether the coordinator hears devices itself: no worker does."""
        self._deaf = False
        """Whether nobody may have heard them for a moment, and the broker has not said yet that
        the coordinator does."""

    @property
    def max_payload(self) -> int:
        """See `Connection`."""
        return self._control.max_payload

    @property
    def connected(self) -> bool:
        """Whether the coordinator itself is connected."""
        return self._control.connected

    def problems(self) -> Iterable[OpenProblem]:
        """Return what keeps workers from their share."""
        return self._workers.problems()

    @property
    def meter(self) -> Meter:
        """What crossed the coordinator's own connection."""
        return self._control.meter

    def start(self) -> None:
        """Begin to connect, and start the workers, which know keys and method from the start."""
        self._tell_workers()
        known = self._facts.keys().by_device
        self._workers.know({one: of.key for one, of in known.items() if of.key is not None})
        self._control.start()
        self._workers.start()

    def wait_connected(self, seconds: float) -> None:
        """Wait until the coordinator itself is connected."""
        self._control.wait_connected(seconds)

    def stop(self) -> None:
        """End the workers, then the connection."""
        self._workers.stop()
        self._control.stop()

    def subscribe(self, *filters: str, qos: int = 1) -> None:
        """Subscribe all of it: what is the workers' is left to them once one of them hears."""
        self._control.subscribe(*filters, qos=qos)

    def unsubscribe(self, *filters: str) -> None:
        """Leave filters of the coordinator's own connection."""
        self._control.unsubscribe(*filters)

    def publish(self, message: interface.OutgoingMessage) -> None:
        """Hand a message over to the coordinator's own connection."""
        self._control.publish(message)

    def wake(self) -> None:
        """Make a waiting `next_event` return None now."""
        self._control.wake()

    def acknowledge(self, message: interface.IncomingMessage) -> None:
        """Tell whoever holds a message that it is safe; a worker with the next event."""
        if isinstance(message.token, _Place):
            self._committed[message.token.worker].append(message.token.number)
        else:
            self._control.acknowledge(message)

    def next_event(self, seconds: float) -> interface.Event | None:
        """Return the next event of the connection or of the workers, by turns.

        `Subscribed` says that devices may have spoken to nobody before it.
        """
        self._tell_workers()
        if self._workers.hear == self._direct:
            self._hand_over()
        self._workers_first = not self._workers_first
        if self._workers_first:
            return self._from_workers() or self._from_control(seconds)
        # To look at the connection takes a wake away, so nothing may be waited for after it.
        return self._from_control(0)

    def _hand_over(self) -> None:
        """Leave the devices to workers that hear them, or hear them where none does."""
        self._direct = self._deaf = not self._workers.hear
        if self._direct:
            self._control.subscribe(*self._shared)
        else:
            self._control.unsubscribe(*self._shared)

    def _from_control(self, seconds: float) -> interface.Event | None:
        event = self._control.next_event(seconds)
        if isinstance(event, interface.Subscribed):
            if not (self._deaf and self._shared.issubset(event.filters)):
                return self._from_workers()
            self._deaf = False
        return event if event is not None else self._from_workers()

    def _from_workers(self) -> CheckedMessage | None:
        handed = self._workers.next()
        if handed is None:
            return None
        message = handed.message
        if message.key is None:
            self._teach(handed)
        return CheckedMessage(
            topic=message.topic,
            payload=message.payload,
            qos=1,
            retained=False,
            token=_Place(handed.worker, message.number),
            key=message.key,
            verdict=message.verdict,
        )

    def _teach(self, handed: Handed) -> None:
        """Tell a worker the key of a device that it could not check, once for each."""
        try:
            device = self._facts.topics.parse(handed.message.topic).device
        except SchemaError:
            return  # the gate says so
        key = self._facts.keys().of(device).key
        if key is not None:
            self._workers.teach(handed.worker, device, key)

    def _tell_workers(self) -> None:
        for worker, numbers in self._committed.items():
            worker.send(Committed(numbers))
        self._committed.clear()
        lineage = self._facts.lineages().backbone
        if lineage is not None and lineage is not self._told:
            self._told = lineage
            self._workers.check_by(CheckedBy(lineage.method, lineage.digest, lineage.settings))
