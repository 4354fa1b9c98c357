"""What systemd is told: over a real datagram socket, at the beats of a clock that tests move."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.runtime.service_manager import ServiceManager


@pytest.fixture
def listener() -> Iterator[tuple[str, socket.socket]]:
    """A socket as systemd has one, with its address."""
    address = f"@fleetledger-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as opened:
        opened.bind(f"\0{address[1:]}")
        yield address, opened


def heard(opened: socket.socket) -> list[bytes]:
    said = []
    while True:
        try:
            said.append(opened.recv(100))
        except BlockingIOError:
            return said


def test_the_first_beat_says_ready_and_later_ones_that_it_moves(
    listener: tuple[str, socket.socket],
) -> None:
    address, opened = listener
    now = [0.0]
    manager = ServiceManager(address, watchdog_seconds=120, clock=lambda: now[0])
    manager.beat()
    assert heard(opened) == [b"READY=1"]
    for moment in (1.0, 29.0, 30.0, 31.0, 59.0, 61.0):
        now[0] = moment
        manager.beat()
    assert heard(opened) == [b"WATCHDOG=1", b"WATCHDOG=1"]


def test_a_path_is_an_address_too(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as opened:
        opened.bind(str(tmp_path / "notify"))
        ServiceManager(str(tmp_path / "notify")).beat()
        assert heard(opened) == [b"READY=1"]


def test_without_a_watchdog_readiness_is_all_that_is_said(
    listener: tuple[str, socket.socket],
) -> None:
    address, opened = listener
    now = [0.0]
    manager = ServiceManager(address, clock=lambda: now[0])
    for moment in range(1000):
        now[0] = float(moment)
        manager.beat()
    assert heard(opened) == [b"READY=1"]


def test_what_systemd_said_is_taken_out_of_the_environment(
    listener: tuple[str, socket.socket],
) -> None:
    address, opened = listener
    environment = {
        "NOTIFY_SOCKET": address,
        "WATCHDOG_USEC": "120000000",
        "WATCHDOG_PID": str(os.getpid()),
        "HOME": "/",
    }
    ServiceManager.take(environment).beat()
    assert environment == {"HOME": "/"}
    assert heard(opened) == [b"READY=1"]


def test_nobody_is_told_where_nobody_listens(tmp_path: Path) -> None:
    ServiceManager.take({}).beat()
    ServiceManager(str(tmp_path / "nobody"), 1.0).beat()
