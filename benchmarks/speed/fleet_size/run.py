"""Measure what a real coordinator holds and takes for fleets of several sizes, over Mosquitto.

For each size: the devices are admitted, the coordinator serves, all devices are born, spread as
it asks; the broker is killed and forgets everything, and all are born again; some devices
say that they are alive, and some that they have nothing to give, and get their receipts.

    python -m benchmarks.speed.fleet_size.run [--sizes 1000 10000 100000] [--messages 800]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.speed.contribution_rate.load import FLEET, Plan, make_home
from benchmarks.speed.contribution_rate.serving import serving
from benchmarks.speed.fleet_size.fleet import ScriptedFleet, connected_as
from fleetledger.coordinator.core.inputs import OperatorCommand
from fleetledger.coordinator.core.state import ENTRY_KINDS
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.program.engine import LedgerEngine
from fleetledger.coordinator.settings import load
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.brokers import MosquittoBroker

RESULTS = RESULTS_FOLDER / "fleet_size.json"
TOPICS = FleetTopics(FLEET)
_GROUP = 1000
_MIB = 2**20


def measure(size: int, messages: int) -> dict[str, float]:
    """Return what a fleet of one size takes."""
    plan = Plan(1, 1, 1, 1, 8)
    names = [DeviceId(f"device-{number:06}") for number in range(size)]
    with (
        tempfile.TemporaryDirectory(dir=Path()) as folder,
        MosquittoBroker(Path(folder) / "broker", plan.names) as broker,
    ):
        home = Path(folder) / "home"
        make_home(home, plan, broker)
        _admit(home, names)
        began = time.monotonic()
        with serving(broker, home, TOPICS) as served:
            found = {"start_seconds": time.monotonic() - began}
            process = psutil.Process(served.process)
            found["mib_at_rest"] = _mib(process)
            user, password = broker.credentials("coordinator")
            connection = connected_as(broker.host, broker.port, user, password)
            fleet = ScriptedFleet(names, TOPICS, connection)
            found["births_seconds"], found["births_sent_again"] = fleet.come()
            found["spread_seconds"] = fleet.spread_seconds
            found["mib_all_there"] = _mib(process)
            broker.kill()
            fleet.forget()
            broker.start()
            again = fleet.come()
            found["births_after_broker_seconds"], found["births_after_broker_sent_again"] = again
            found["mib_all_there_again"] = _mib(process)
            fleet.say_nothing(50, stage=1)  # so that all is warm
            found["letter_microseconds"] = _spent(
                process, lambda: fleet.say_nothing(messages, stage=1), messages
            )
            beats = _spent(process, lambda: _beat_and_wait(fleet, messages), messages)
            found["heartbeat_microseconds"] = beats
            found["mib_at_the_end"] = _mib(process)
            found["peak_mib"] = _peak(process)
            fleet.close()
        with LedgerReader.open_read_only(ledger_path(home)) as ledger:
            born = {entry.device for entry in ledger.find(ENTRY_KINDS["device.born"])}
        if len(born) != size:
            raise RuntimeError(f"{len(born)} of {size} devices were born")
    return {name: round(value, 2) for name, value in found.items()}


def _admit(home: Path, names: Sequence[DeviceId]) -> None:
    engine = LedgerEngine.open(home, load(home).rules)
    try:
        for first in range(0, len(names), _GROUP):
            engine.process(
                OperatorCommand(f"admit-{name}", AdmitDevice(device=name))
                for name in names[first : first + _GROUP]
            )
    finally:
        engine.close()


def _beat_and_wait(fleet: ScriptedFleet, count: int) -> None:
    """Have devices beat; who waits for a receipt behind them knows that they were heard."""
    fleet.beat(count)
    fleet.say_nothing(1, stage=1)


def _spent(process: psutil.Process, act: Callable[[], None], count: int) -> float:
    """Return the microseconds of processor that the coordinator needs for each message."""
    before = process.cpu_times()
    act()
    after = process.cpu_times()
    return (after.user + after.system - before.user - before.system) / count * 1e6


def _mib(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / _MIB


def _peak(process: psutil.Process) -> float:
    for line in Path(f"/proc/{process.pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("this kernel does not tell a process's peak of memory")


def main() -> None:
    """Measure every size, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--messages", type=int, default=800)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    sizes = {}
    for size in given.sizes:
        sizes[str(size)] = measure(size, given.messages)
        print(size, sizes[str(size)], file=sys.stderr)
    result = {
        "command": f"python -m benchmarks.speed.fleet_size.run {' '.join(sys.argv[1:])}".strip(),
        "machine": describe_machine("paho-mqtt", "pydantic"),
        "messages": given.messages,
        "sizes": sizes,
    }
    text = json.dumps(result, indent=2)
    given.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
