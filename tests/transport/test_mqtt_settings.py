"""Hosts of brokers as people write them."""

from __future__ import annotations

import pytest

from fleetledger.runtime.errors import InvalidValueError
from fleetledger.transport.mqtt_settings import read_host


@pytest.mark.parametrize("host", ["b", "broker.example", "broker_1", "10.0.0.5", "::1"])
def test_a_host_is_a_name_or_an_ip_address(host: str) -> None:
    assert read_host(host) == host


@pytest.mark.parametrize("host", ["mqtts://b", "b:1883", "[::1]", "b/x", "", "a b", "-b"])
def test_what_has_a_scheme_a_port_or_a_path_is_none(host: str) -> None:
    with pytest.raises(InvalidValueError, match="a name or an IP address alone"):
        read_host(host)
