"""One connection of a coordinator and its workers: whoever waits for it can be woken."""

from __future__ import annotations

from coordinator.core.state import State
from coordinator.serving.workers.connection import Facts, SharedConnection
from coordinator.serving.workers.processes import IntakeWorkers
from schemas.topics import FleetTopics
from schemas.values import FleetId
from transport.interface import Connected
from transport.memory import InMemoryBroker

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
