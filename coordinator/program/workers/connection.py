"""The coordinator's connection, where what devices say is subscribed by intake workers.

To the shell it is one connection: messages come from it, and are acknowledged to it. Those of the
shared filters come by way of the workers, and the broker has their acknowledgement from the worker
that holds them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fleetledger.coordinator.models.payload_check import PayloadVerdict
from fleetledger.coordinator.program.workers.frames import CheckedBy, Committed, DeviceKey
from fleetledger.coordinator.program.workers.processes import Handed, IntakeProcess, IntakeWorkers
from fleetledger.coordinator.topics.lineages.state import LineagesState
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.problems import OpenProblem
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.topics import FleetTopics, UpLeaf
from fleetledger.schemas.values import DeviceId
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
    key_of: Callable[[DeviceId], VerifyKey | None]
    """The key of a device that is admitted and has one."""
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
        """Begin to connect, and start the workers."""
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
        """Subscribe what is not the workers'."""
        own = [wanted for wanted in filters if wanted not in self._shared]
        if own:
            self._control.subscribe(*own, qos=qos)

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
        """Return the next event of the connection or of the workers, by turns."""
        self._tell_workers()
        self._workers_first = not self._workers_first
        if self._workers_first:
            return self._from_workers() or self._from_control(seconds)
        # To look at the connection takes a wake away, so nothing may be waited for after it.
        return self._control.next_event(0) or self._from_workers()

    def _from_control(self, seconds: float) -> interface.Event | None:
        event = self._control.next_event(seconds)
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
        worker = handed.worker
        try:
            device = self._facts.topics.parse(handed.message.topic).device
        except SchemaError:
            return  # the gate says so
        key = self._facts.key_of(device)
        if key is not None and worker.knows.get(device) != key:
            worker.knows[device] = key
            worker.send(DeviceKey(device, key))

    def _tell_workers(self) -> None:
        for worker, numbers in self._committed.items():
            worker.send(Committed(numbers))
        self._committed.clear()
        lineage = self._facts.lineages().backbone
        if lineage is not None and lineage is not self._told:
            self._told = lineage
            self._workers.check_by(CheckedBy(lineage.method, lineage.digest, lineage.settings))
