"""Devices that offer payloads and send none of them do not keep the others' from coming in.

`python -m tests.promises.silent_devices` measures what they cost; every rule by itself, by a clock
set by hand, is in tests/transport/test_fair_fetches.py.
"""

from pathlib import Path

import pytest

from fleetledger.transport.brokers import find_mosquitto
from tests.promises.brokers import DefaultMosquitto
from tests.promises.silent_devices import DEVICES, HONEST, measure


@pytest.mark.broker
@pytest.mark.skipif(find_mosquitto() is None, reason="needs mosquitto on the PATH")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("silent", [pytest.param(1, marks=pytest.mark.nightly), 5])
def test_every_honest_payload_comes_although_silent_ones_were_offered_before(
    tmp_path: Path, silent: int
) -> None:
    broker = DefaultMosquitto(tmp_path, HONEST)
    broker.start()
    try:
        assert len(measure(broker, silent, times=1)) == DEVICES
    finally:
        broker.stop()
