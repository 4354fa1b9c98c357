"""Measure how fast devices connect to Mosquitto, from the first CONNECT to the last CONNACK.

All ends run on one machine, so its processors are what is measured; the processor time of this
process stands beside. A model's way to many devices is in `time_to_model`.

    python -m benchmarks.speed.fleet_scale.run [--devices 200] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.speed.contribution_rate.fleet import Fleet
from benchmarks.speed.transport_rate.raw import Peer
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.brokers import MosquittoBroker

RESULTS = RESULTS_FOLDER / "fleet_scale.json"


@dataclass(frozen=True)
class Measured:
    """One run: seconds of the clock, and of this process's processor time."""

    seconds: float
    processor_seconds: float


def timed(work: Callable[[], None]) -> Measured:
    """Do `work` and measure it."""
    began, spent = time.perf_counter(), time.process_time()
    work()
    return Measured(time.perf_counter() - began, time.process_time() - spent)


def connect(broker: MosquittoBroker, names: Sequence[DeviceId]) -> Measured:
    """Connect a client for each name, and wait for every CONNACK."""
    made: list[Fleet] = []
    peers = [Peer(*broker.credentials(name)) for name in names]
    measured = timed(lambda: made.append(Fleet(broker.host, broker.port, peers)))
    made[0].close()
    return measured


def measure(given: argparse.Namespace) -> dict[str, object]:
    """Run all rounds; return what is written down."""
    names = [DeviceId(f"device-{number:03}") for number in range(given.devices)]
    with (
        tempfile.TemporaryDirectory(dir=Path()) as scratch,
        MosquittoBroker(Path(scratch) / "broker", names) as broker,
    ):
        connects = [connect(broker, names) for _ in range(given.rounds)]
        machine = describe_machine("paho-mqtt") | {"mosquitto": broker.version}
    return {
        "command": f"python -m benchmarks.speed.fleet_scale.run {' '.join(sys.argv[1:])}".strip(),
        "machine": machine,
        "connections": given.devices,
        "connect_seconds": spread([one.seconds for one in connects]),
        "connect_processor_seconds": spread([one.processor_seconds for one in connects]),
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return median and range, to three significant places."""
    numbers = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: float(f"{value:.3g}") for name, value in numbers.items()}


def main() -> None:
    """Run the rounds, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    text = json.dumps(measure(given), indent=2)
    given.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
