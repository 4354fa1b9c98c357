"""What is known of a large fleet just now, written again and again as a coordinator would."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.fleet_view.history import FLEET, History
from coordinator.live.file import LiveFile
from coordinator.live.snapshot import CoordinatorNow, DeviceNow, LiveSnapshot
from schemas.health import DeviceHealth, ThermalZone

WRITE_SECONDS = 2.0
_CHANGED = 30
"""Devices that are heard of between two snapshots: each every minute or so."""


@contextmanager
def presence(home: Path, history: History) -> Iterator[None]:
    """Write what is known into `home` every two seconds, until left."""
    ended = threading.Event()

    def write() -> None:
        file, beats = LiveFile(home), 0
        while not ended.is_set():
            file.write(_snapshot(history, beats))
            written.set()
            beats += 1
            ended.wait(WRITE_SECONDS)
        file.close()

    written = threading.Event()
    thread = threading.Thread(target=write)
    thread.start()
    try:
        written.wait()
        yield
    finally:
        ended.set()
        thread.join()


def _snapshot(history: History, beats: int) -> LiveSnapshot:
    now_ns = time.time_ns()
    coordinator = CoordinatorNow(
        fleet=FLEET,
        version="1",
        pid=1,
        started_ns=now_ns - 10**12,
        written_ns=now_ns,
        connected=True,
        ledger_size=history.entries,
    )
    devices = {
        name: DeviceNow(
            device=name,
            online=number % 10 != 0,
            heard_ns=_START_NS + (beats * _CHANGED + number) // history.devices * 10**9,
            outbox=number % 3,
            resident_bytes=100_000_000,
            health=DeviceHealth(
                provider="CPUExecutionProvider",
                temperatures=(ThermalZone(zone="cpu", celsius=40 + number % 40),),
                free_disk_bytes=10**10 + number,
                inference_p95_seconds=0.02,
            ),
            health_ns=_START_NS,
        )
        for number, name in enumerate(history.names)
    }
    return LiveSnapshot(coordinator=coordinator, devices=devices)


_START_NS = time.time_ns()
