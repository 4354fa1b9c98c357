"""Measure contributions per second into the committed ledger, against a bare paho subscriber.

Devices (one MQTT user and one connection each) send real STSA contributions with the payload
attached, at QoS 1, to three sides in turn, over the same Mosquitto and in the same run. Each side
is a process of its own:

    coordinator  `fleetledger coordinator serve`: checked by STSA, committed, receipt and proof sent
    signed       the same, from devices whose keys sign every message
    workers      the same with two intake workers, once they have started
    answering    bare paho: acknowledges each message by hand and sends a receipt's bytes back
    bare         bare paho: acknowledges each message by hand; the floor

Timed is what lies between the first publish and the last receipt (for `bare`, the last message).

    python -m benchmarks.speed.contribution_rate.run [--rounds 6]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.speed.contribution_rate.fleet import PATIENCE_SECONDS, Fleet, Task
from benchmarks.speed.contribution_rate.floor import Seat, bare_subscriber
from benchmarks.speed.contribution_rate.load import (
    FLEET,
    Plan,
    enrol,
    make_answer,
    make_home,
    make_keys,
    make_messages,
    signed,
)
from benchmarks.speed.contribution_rate.serving import serving
from benchmarks.speed.transport_rate.raw import Peer
from fleetledger.coordinator.core.state import ENTRY_KINDS
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.transport.brokers import MosquittoBroker

RESULTS = RESULTS_FOLDER / "contribution_rate.json"
TOPICS = FleetTopics(FLEET)
BARE_TOPICS = FleetTopics(FleetId("bare"))
"""Of the same length, and heard by no coordinator."""


_LOOK_SECONDS = 0.5
_CALM_LOOKS = 4
_CALM_CPU_SECONDS = 0.02


@dataclass(frozen=True)
class Measured:
    """One side in one round."""

    per_second: float
    cpu_seconds: float
    """Processor time of the side's process, all threads, and of those that it has started."""
    own_cpu_seconds: float = 0.0
    """Without those."""


@dataclass(frozen=True)
class Bench:
    """What all sides of all rounds share."""

    plan: Plan
    folder: Path
    broker: MosquittoBroker
    fleet: Fleet
    home: Path
    """A coordinator's home, copied for every round."""
    messages: Sequence[Sequence[bytes]]
    answer: bytes
    """A receipt's bytes."""
    signed_home: Path
    """The same home with a key enrolled for every device."""
    keys: Mapping[DeviceId, SigningKey]


def measure_coordinator(bench: Bench) -> Measured:
    """Let a real coordinator process take everything in; count the entries in its ledger."""
    return measure_served(bench, bench.home)


def measure_signed(bench: Bench) -> Measured:
    """Do the same with devices that sign."""
    return measure_served(bench, bench.signed_home, bench.keys)


def measure_workers(bench: Bench) -> Measured:
    """Do the same with two processes that read and check."""
    return measure_served(bench, bench.signed_home, bench.keys, ("--intake", "2"))


def measure_served(
    bench: Bench,
    template: Path,
    keys: Mapping[DeviceId, SigningKey] | None = None,
    options: Sequence[str] = (),
) -> Measured:
    """Serve a copy of a home, with options of `coordinator serve`, and have everything taken in."""
    home = bench.folder / "home"
    shutil.copytree(template, home)
    with serving(bench.broker, home, TOPICS, *options) as served:
        if options:
            wait_until_ready(served.process)
        messages = bench.messages if keys is None else signed(bench.messages, keys, served.birth)
        before, own = _cpu_seconds(served.process, family=True), _cpu_seconds(served.process)
        began, ended = bench.fleet.give(Task(TOPICS, messages, bench.plan.window, answered=True))
        spent = _cpu_seconds(served.process, family=True) - before
        own = _cpu_seconds(served.process) - own
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        accepted = sum(1 for _ in ledger.find(ENTRY_KINDS["contribution.accepted"]))
    if accepted != bench.plan.count:
        raise RuntimeError(f"{accepted} entries in the ledger for {bench.plan.count} receipts")
    shutil.rmtree(home)
    return Measured(bench.plan.count / (ended - began), spent, own)


def wait_until_ready(process: int) -> None:
    """Wait until workers have started: their processor time stands still for two seconds."""
    calm, spent = 0, -1.0
    while calm < _CALM_LOOKS:
        time.sleep(_LOOK_SECONDS)
        now = _cpu_seconds(process, family=True) - _cpu_seconds(process)
        calm, spent = (calm + 1 if now - spent < _CALM_CPU_SECONDS else 0), now


def measure_answering(bench: Bench) -> Measured:
    """Let a bare paho client receive everything and send a receipt's bytes for each message."""
    return _measure_bare(bench, bench.answer)


def measure_bare(bench: Bench) -> Measured:
    """Let a bare paho client receive everything."""
    return _measure_bare(bench, b"")


SIDES: dict[str, Callable[[Bench], Measured]] = {
    "coordinator": measure_coordinator,
    "signed": measure_signed,
    "workers": measure_workers,
    "answering": measure_answering,
    "bare": measure_bare,
}


def _measure_bare(bench: Bench, answer: bytes) -> Measured:
    broker, count = bench.broker, bench.plan.count
    peer = Peer(*broker.credentials("coordinator"))
    (wanted,) = BARE_TOPICS.from_every_device("msg")
    with bare_subscriber(Seat(broker.host, broker.port, peer, wanted, count, answer)) as subscriber:
        before = _cpu_seconds(subscriber.process)
        task = Task(BARE_TOPICS, bench.messages, bench.plan.window, answered=bool(answer))
        began, ended = bench.fleet.give(task)
        if not subscriber.pipe.poll(PATIENCE_SECONDS):
            raise TimeoutError("the bare subscriber did not get everything")
        last_message: float = subscriber.pipe.recv()
        spent = _cpu_seconds(subscriber.process) - before
    return Measured(count / ((ended if answer else last_message) - began), spent)


def _cpu_seconds(process: int, *, family: bool = False) -> float:
    one = psutil.Process(process)
    times = [found.cpu_times() for found in (one, *(one.children() if family else ()))]
    return float(sum(each.user + each.system for each in times))


@contextmanager
def set_up(plan: Plan) -> Iterator[Bench]:
    """Start the broker and connect the devices, in a folder on the disk of the working folder."""
    with (
        tempfile.TemporaryDirectory(dir=Path()) as name,
        MosquittoBroker(Path(name) / "broker", plan.names) as broker,
    ):
        folder = Path(name)
        lineage = make_home(folder / "template", plan, broker)
        peers = [Peer(*broker.credentials(device)) for device in plan.names]
        fleet = Fleet(broker.host, broker.port, peers)
        for topics in (TOPICS, BARE_TOPICS):
            fleet.subscribe(topics)
        keys = make_keys(plan)
        shutil.copytree(folder / "template", folder / "signed")
        enrol(folder / "signed", keys)
        yield Bench(
            plan,
            folder,
            broker,
            fleet,
            folder / "template",
            make_messages(plan, lineage),
            make_answer(),
            folder / "signed",
            keys,
        )
        fleet.close()


def measure(plan: Plan) -> dict[str, object]:
    """Run all rounds, each side once in each, in rotating order; return what is written down."""
    rounds: list[dict[str, Measured]] = []
    names = list(SIDES)
    with set_up(plan) as bench:
        for number in range(plan.rounds):
            first = number % len(names)
            rounds.append({side: SIDES[side](bench) for side in names[first:] + names[:first]})
            print({side: round(rounds[-1][side].per_second) for side in names}, file=sys.stderr)
        sizes = [len(message) for device in bench.messages for message in device]
        machine = describe_machine("paho-mqtt", "pydantic") | {"mosquitto": bench.broker.version}
        answer_bytes = len(bench.answer)
    size = statistics.mean(sizes)
    return {
        "command": (
            f"python -m benchmarks.speed.contribution_rate.run {' '.join(sys.argv[1:])}"
        ).strip(),
        "machine": machine,
        "plan": asdict(plan) | {"message_bytes": round(size), "receipt_bytes": answer_bytes},
    } | summary(rounds, plan.count, size)


def summary(
    rounds: Sequence[dict[str, Measured]], count: int, message_bytes: float
) -> dict[str, object]:
    """Return medians and ranges of all sides, and the coordinator's share of the others."""

    def each(number: Callable[[Measured], float]) -> dict[str, dict[str, float]]:
        return {side: spread([number(found[side]) for found in rounds]) for side in SIDES}

    return {
        "contributions_per_second": each(lambda found: found.per_second),
        "bytes_per_second": each(lambda found: found.per_second * message_bytes),
        "cpu_microseconds_per_contribution": each(lambda found: found.cpu_seconds / count * 1e6),
        "own_cpu_microseconds_of_workers": spread(
            [found["workers"].own_cpu_seconds / count * 1e6 for found in rounds]
        ),
        "workers_to_signed": spread(
            [one["workers"].per_second / one["signed"].per_second for one in rounds], 3
        ),
        "coordinator_to": {
            side: spread(
                [one["coordinator"].per_second / one[side].per_second for one in rounds], 3
            )
            for side in ("answering", "bare")
        },
        "signed_to_coordinator": spread(
            [one["signed"].per_second / one["coordinator"].per_second for one in rounds], 3
        ),
    }


def spread(values: Sequence[float], digits: int = 0) -> dict[str, float]:
    """Return median and range."""
    numbers = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: round(value, digits or None) for name, value in numbers.items()}


def main() -> None:
    """Run the rounds, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--devices", type=int, default=50)
    parser.add_argument("--parts", type=int, default=200, help="contributions of each device")
    parser.add_argument("--window", type=int, default=4, help="of a device, under way at a time")
    parser.add_argument("--map-width", type=int, default=40, help="features; sets the size")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    plan = Plan(given.rounds, given.devices, given.parts, given.window, given.map_width)
    text = json.dumps(measure(plan), indent=2)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
