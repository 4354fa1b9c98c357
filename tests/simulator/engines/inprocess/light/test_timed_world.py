"""What light agents that act fetch takes as long as over a connection."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest

from fleetledger.schemas.envelope import COORDINATOR, Sender
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, FleetId
from fleetledger.simulator.engines.inprocess.light.timed_world import fetch_seconds
from fleetledger.simulator.virtual.clock import VirtualClock
from fleetledger.simulator.virtual.loop import Endpoint, Loop
from fleetledger.simulator.virtual.stopwatch import Stopwatch
from fleetledger.simulator.virtual.world import World
from fleetledger.transport.transfer import Party
from tests.chaos.exchange import SteppedExchange
from tests.chaos.network import VirtualNetwork

LATENCY = 0.02
FLEET, DEVICE = FleetId("fleet"), DeviceId("device-1")


@pytest.mark.parametrize("size", [1, 200_000, 1_000_000, 10_000_000])
def test_a_file_takes_as_long_as_over_a_connection(size: int, tmp_path: Path) -> None:
    world = World(Loop(VirtualClock()), Stopwatch())
    network = VirtualNetwork(world.loop, LATENCY, 1)

    def exchange(name: DeviceId, device: DeviceId | None) -> SteppedExchange:
        sender = Sender(FLEET, name, BootId("0" * 16))
        party = Party(FleetTopics(FLEET), sender, device)
        endpoint = partial(Endpoint, world.loop)
        made = SteppedExchange(network.connection(name), party, world.loop, endpoint)
        made.start()
        return made

    giving, taking = exchange(COORDINATOR, None), exchange(DEVICE, DEVICE)
    offer = giving.serve(random.Random(size).randbytes(size))
    future = taking.fetch(offer, tmp_path / "file", DEVICE, seconds=100.0)
    assert world.run(future.done, lambda: 100.0)
    assert fetch_seconds(offer, 2 * LATENCY) == pytest.approx(world.now, rel=0.3)
