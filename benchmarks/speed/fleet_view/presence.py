"""A fleet in which something happens: new entries, and news of who is there and how."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.speed.fleet_view.history import FLEET, History
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.live.file import LiveFile
from fleetledger.coordinator.live.snapshot import CoordinatorNow, DeviceNow, LiveSnapshot
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.devices.entries import DeviceProblem
from fleetledger.schemas.health import DeviceHealth, ThermalZone

WRITE_SECONDS = 2.0
ENTRIES = 20
"""Of each such time."""
_CHANGED = 30
"""Devices that are heard of between two snapshots: each every minute or so."""


@contextmanager
def presence(home: Path, history: History) -> Iterator[None]:
    """Write new entries and what is known into `home` every two seconds, until left."""
    ended = threading.Event()

    def write() -> None:
        file, beats = LiveFile(home), 0
        with Ledger.open(ledger_path(home)) as ledger:
            while not ended.is_set():
                ledger.append(_problems(history, beats))
                file.write(_snapshot(history, beats, ledger.size))
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


def _problems(history: History, beats: int) -> list[EntryDraft]:
    body = DeviceProblem(about="disk", text=f"it was full {beats} times")
    values = body.model_dump(mode="json")
    chosen = history.names[-ENTRIES:]
    return [EntryDraft(body.kind, device, values, device, body.blobs) for device in chosen]


def _snapshot(history: History, beats: int, size: int) -> LiveSnapshot:
    now_ns = time.time_ns()
    coordinator = CoordinatorNow(
        fleet=FLEET,
        version="1",
        pid=1,
        started_ns=now_ns - 10**12,
        written_ns=now_ns,
        connected=True,
        ledger_size=size,
    )
    devices = {
        name: DeviceNow(
            device=name,
            online=(number + beats) % history.devices > history.devices // 10,
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
