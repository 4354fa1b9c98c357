"""One connection of a coordinator and its workers: whoever waits for it can be woken."""

from __future__ import annotations

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.program.workers.connection import Facts, SharedConnection
from fleetledger.coordinator.program.workers.processes import IntakeWorkers
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import FleetId
from fleetledger.transport.interface import Connected
from fleetledger.transport.memory import InMemoryBroker

LONG_SECONDS = 3600.0


def test_whoever_waits_is_woken_at_every_turn() -> None:
    control = InMemoryBroker().connection("coordinator.control")
    state = State()
    facts = Facts(FleetTopics(FleetId("orchard")), lambda _: None, lambda: state.lineages)
    shared = SharedConnection(control, IntakeWorkers([], control.wake), facts)
    shared.start()
    assert isinstance(shared.next_event(LONG_SECONDS), Connected)
    for _ in range(4):
        shared.wake()
        assert shared.next_event(LONG_SECONDS) is None
        shared.wake()
        assert shared.next_event(LONG_SECONDS) is None, "the turn after it, too"
    shared.stop()
