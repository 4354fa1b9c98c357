"""Shared fixtures: a real Mosquitto for the tests that are marked `broker`."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from transport.brokers import MosquittoBroker, find_mosquitto

settings.register_profile("any machine", deadline=None)  # a busy one takes longer than 200 ms
settings.load_profile("any machine")

BROKER_USERS = ("dev-a", "dev-b", "dev-c")


@pytest.fixture(scope="session")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MosquittoBroker]:
    """A running Mosquitto with the devices `BROKER_USERS` and the coordinator.

    Without the program the test is skipped, or fails where FLEETLEDGER_REQUIRE_BROKER=1.
    """
    if find_mosquitto() is None:
        message = "mosquitto is not installed: `apt install mosquitto`"
        if os.environ.get("FLEETLEDGER_REQUIRE_BROKER") == "1":
            pytest.fail(message)
        pytest.skip(message)
    with MosquittoBroker(tmp_path_factory.mktemp("mosquitto"), BROKER_USERS) as broker:
        yield broker
