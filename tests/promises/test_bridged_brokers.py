"""Two brokers with a bridge between them: a site's, and the one that the coordinator is at."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from benchmarks.speed.contribution_rate.load import Plan
from fleetledger.schemas.envelope import COORDINATOR, Sender
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, FleetId
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from fleetledger.transport.part_file import file_digest
from fleetledger.transport.transfer import BlockExchange
from tests.promises import receiver
from tests.promises.brokers import DefaultMosquitto, SiteMosquitto
from tests.promises.real_broker import ROOT, RealFleet, check_ledger
from tests.transport.relay import Relay

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("mosquitto")]

PLAN = Plan(1, devices=2, parts=30, window=1, map_width=8)
DEVICE = PLAN.names[0]
FLEET = FleetId("bridged")
SIZE = 6_000_000
PATIENCE = 300.0

Brokers = tuple[DefaultMosquitto, SiteMosquitto]


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    with (
        DefaultMosquitto(tmp_path / "centre", PLAN.names) as centre,
        SiteMosquitto(tmp_path / "site", centre) as site,
    ):
        yield centre, site


def until(happened: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def test_contributions_of_devices_that_move_between_brokers_count_once(
    tmp_path: Path, brokers: Brokers
) -> None:
    """The bridge is cut as well: the site's broker is killed, and forgets what it had."""
    centre, site = brokers
    fleet = RealFleet(tmp_path, centre, PLAN)
    fleet.move(DEVICE, site.port)
    fleet.start()
    try:
        for number, port in enumerate((centre.port, site.port, centre.port, site.port), start=1):
            until(lambda: len(fleet.receipts()) >= number * 10, "receipts do not come")  # noqa: B023
            fleet.move(DEVICE, port)
            fleet.kill_device(DEVICE)
            if number == 2:
                site.kill()
                site.start()
        until(lambda: len(fleet.receipts()) == PLAN.count, "receipts do not come")
        receipts = fleet.receipts()
    finally:
        fleet.stop()
    check_ledger(fleet, receipts)


def start_receiver(folder: Path, plan: receiver.Plan) -> subprocess.Popen[bytes]:
    (folder / "plan.json").write_text(plan.model_dump_json())
    command = [sys.executable, "-m", "tests.promises.receiver", str(folder / "plan.json")]
    return subprocess.Popen(command, cwd=ROOT)


def test_a_download_goes_on_at_the_broker_that_the_device_has_moved_to(
    tmp_path: Path, brokers: Brokers
) -> None:
    centre, site = brokers
    ways = [Relay(broker.host, broker.port, rate=8e6) for broker in (site, centre)]
    user, password = centre.credentials(COORDINATOR)
    settings = MqttSettings(
        client_id=f"{user}.data", port=centre.port, user=user, password=password
    )
    topics = FleetTopics(FLEET)
    sender = Sender(FLEET, DeviceId(COORDINATOR), BootId.fresh())
    exchange = BlockExchange(MqttConnection(settings), topics, sender)
    exchange.start()
    origin, destination = tmp_path / "origin", tmp_path / "received" / "model"
    origin.write_bytes(Random(1).randbytes(SIZE))
    plan = receiver.Plan(
        fleet=FLEET,
        device=DEVICE,
        port=ways[0].port,
        password=centre.credentials(DEVICE)[1],
        offer=exchange.serve(origin),
        destination=destination,
    )
    child = start_receiver(tmp_path, plan)
    try:
        until(lambda: ways[0].bytes_down > SIZE // 3, "nothing comes over the bridge")
        child.kill()
        child.wait()
        assert not destination.exists()
        child = start_receiver(tmp_path, plan.model_copy(update={"port": ways[1].port}))
        assert child.wait(PATIENCE) == 0
    finally:
        child.kill()
        child.wait()
        exchange.stop()
        for way in ways:
            way.close()
    assert file_digest(destination) == plan.offer.digest
    assert ways[1].bytes_down < 0.8 * SIZE, "what had come over the bridge is not fetched again"
