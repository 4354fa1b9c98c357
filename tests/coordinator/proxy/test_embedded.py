"""`coordinator serve` with a proxy in its process, on a real Mosquitto."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from fleetledger.schemas.envelope import PROXY
from fleetledger.simulator.engines.mqtt.homes import PASSWORD_FILE, write_password
from fleetledger.simulator.engines.mqtt.processes import Children
from fleetledger.transport.brokers import MosquittoBroker
from tests.end_to_end.process_fleet import ProcessFleet

pytestmark = [pytest.mark.torch, pytest.mark.broker]

SETTINGS = """\
[method]
name = "lga"

[proxy]
home = "../proxy"
"""


class Fleet(ProcessFleet):
    name = "mill-with-a-proxy-inside"


def test_a_coordinator_starts_its_proxy_and_ends_it(
    tmp_path: Path, mosquitto: MosquittoBroker
) -> None:
    (tmp_path / "logs").mkdir()
    mosquitto.add_users([PROXY])
    with Children(tmp_path / "logs") as children:
        fleet = Fleet(tmp_path, mosquitto, children)
        fleet.set_up_coordinator(SETTINGS)
        write_password(tmp_path / "proxy", mosquitto, PROXY)
        access = ("--broker-port", str(mosquitto.port), "--password-file", str(PASSWORD_FILE))
        where = ("--home", str(tmp_path / "proxy"))
        fleet.run("coordinator", "proxy-init", "--fleet", fleet.name, *access, *where)
        fleet.start_coordinator()
        fleet.until(lambda: fleet.said("coordinator").count("connected to the broker") == 2)
        assert "this process can read its gradients" in fleet.said("coordinator")
        (child,) = children.running
        fleet.signal("coordinator", signal.SIGTERM)
        assert child.process.wait(300) == 0
        children.running.remove(child)
        assert "Traceback" not in fleet.said("coordinator")
