"""Promise 9 over a real Mosquitto: how long receipts take while one device sends far too much.

A real coordinator process; nine devices send five contributions a second each, and one, every
other time, ten times what the default settings let it. Both take turns, so that what else the
machine does falls on both alike.

python -m tests.promises.quota [--rounds 3] [--seconds 10]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import Process
from pathlib import Path

import psutil
from paho.mqtt.client import Client, MQTTMessage

from benchmarks.contribution_rate.load import FLEET, Plan, make_home, make_messages
from benchmarks.contribution_rate.serving import serving
from benchmarks.transport_rate.raw import Peer, bare_client
from coordinator.core.entries import ContributionAccepted
from coordinator.core.rules import IntakeRules
from coordinator.ledger.reader import LedgerReader
from coordinator.paths import ledger_path
from schemas.envelope import decode
from schemas.receipts import Accepted, Later, Receipt
from schemas.topics import FleetTopics
from schemas.values import DeviceId
from transport.brokers import MosquittoBroker

TOPICS = FleetTopics(FLEET)
QUIET, PER_SECOND = 9, 5.0
LOUD_PER_SECOND = 10 * IntakeRules().messages_per_minute / 60
PATIENCE = 600.0


@dataclass
class Talker:
    """A device that sends its contributions at an even pace and notes how long each took."""

    name: DeviceId
    client: Client
    messages: Sequence[bytes]
    per_second: float
    persists: bool
    """Whether it sends again what was put off."""
    sent: dict[int, float] = field(default_factory=dict)
    waited: dict[int, float] = field(default_factory=dict)

    def begin(self) -> None:
        self.client.on_message = self._heard
        self.client.subscribe(str(TOPICS.down(self.name, "rcpt")), qos=1)

    def speak(self, began: float) -> None:
        """Send everything at its moment; runs in a thread of its own."""
        topic = str(TOPICS.up(self.name, "msg"))
        for number, message in enumerate(self.messages):
            time.sleep(max(0.0, began + number / self.per_second - time.monotonic()))
            self.sent[number] = time.monotonic()
            self.client.publish(topic, message, qos=1)

    def _heard(self, _client: object, _data: object, message: MQTTMessage) -> None:
        receipt = decode(message.payload).read(Receipt)
        number = receipt.key.part
        match receipt.answer:
            case Accepted():
                self.waited.setdefault(number, time.monotonic() - self.sent[number])
            case Later(after_seconds=seconds) if self.persists:
                again = (str(TOPICS.up(self.name, "msg")), self.messages[number], 1)
                threading.Timer(seconds, self.client.publish, again).start()


@dataclass(frozen=True)
class Measured:
    """One round: the quiet devices' p95 in seconds, and what the coordinator spent."""

    p95: float
    processor_seconds: float
    loud_accepted: int


def measure(folder: Path, seconds: float, *, loud: bool) -> Measured:
    """Let the devices talk to a new coordinator."""
    loud_parts = round(LOUD_PER_SECOND * seconds)
    plan = Plan(rounds=1, devices=QUIET + 1, parts=loud_parts, window=1, map_width=8)
    quiet_parts = round(PER_SECOND * seconds)
    with MosquittoBroker(folder / "broker", plan.names) as broker:
        home = folder / "home"
        lineage = make_home(home, plan, broker)
        messages = list(make_messages(replace(plan, parts=quiet_parts), lineage))
        if loud:
            (messages[0],) = make_messages(replace(plan, devices=1), lineage)
        seat = Peer(*broker.credentials(plan.names[0]))
        with serving(broker, home, TOPICS) as served:
            quiet = [
                Talker(name, connected(broker, name), messages[number], PER_SECOND, persists=True)
                for number, name in enumerate(plan.names)
                if number
            ]
            noise = Process(target=shout, args=(broker.port, seat, messages[0]), daemon=True)
            before = sum(psutil.Process(served.process).cpu_times()[:2])
            if loud:
                noise.start()
            talk(quiet)
            spent = sum(psutil.Process(served.process).cpu_times()[:2]) - before
            if loud:
                noise.join()
            for one in quiet:
                one.client.disconnect()
                one.client.loop_stop()
    accepted = taken_from(home, plan.names[0])
    waits = sorted(wait for one in quiet for wait in one.waited.values())
    return Measured(waits[int(0.95 * len(waits))], spent, accepted)


def connected(broker: MosquittoBroker, name: DeviceId) -> Client:
    return bare_client(broker.host, broker.port, Peer(*broker.credentials(name)), name)


def shout(port: int, peer: Peer, messages: Sequence[bytes]) -> None:
    """Be the loud device, in a process of its own that takes no time of those who measure."""
    client = bare_client("127.0.0.1", port, peer, peer.user)
    loud = Talker(DeviceId(peer.user), client, messages, LOUD_PER_SECOND, persists=False)
    loud.speak(time.monotonic())
    client.disconnect()
    client.loop_stop()


def taken_from(home: Path, device: DeviceId) -> int:
    """Return how many contributions of a device the ledger has."""
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        entries = ledger.entries(kind=ContributionAccepted.kind)
        return sum(entry.device == device for entry in entries)


def talk(talkers: Sequence[Talker]) -> None:
    """Let all talk at once, until they have every receipt."""
    for one in talkers:
        one.begin()
    began = time.monotonic() + 0.5
    threads = [threading.Thread(target=one.speak, args=(began,)) for one in talkers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    end = time.monotonic() + PATIENCE
    while any(len(one.waited) < len(one.messages) for one in talkers):
        assert time.monotonic() < end, "receipts are missing"
        time.sleep(0.01)


def main() -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.promises.quota", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    ratios = []
    for number in range(given.rounds):
        found = {}
        for loud in (False, True) if number % 2 == 0 else (True, False):
            with tempfile.TemporaryDirectory(dir=Path()) as name:
                found[loud] = measure(Path(name), given.seconds, loud=loud)
        calm, noisy = found[False], found[True]
        ratios.append(noisy.p95 / calm.p95)
        sys.stdout.write(
            f"p95 {calm.p95 * 1000:.0f} ms, beside the loud device {noisy.p95 * 1000:.0f} ms, "
            f"{ratios[-1]:.2f} times; processor {calm.processor_seconds:.1f} s and "
            f"{noisy.processor_seconds:.1f} s; {noisy.loud_accepted} of its "
            f"{round(LOUD_PER_SECOND * given.seconds)} contributions were taken in\n"
        )
        sys.stdout.flush()
    median = statistics.median(ratios)
    sys.stdout.write(f"median of {len(ratios)} rounds: {median:.2f} times\n")
    return 0 if median <= 2 else 1


if __name__ == "__main__":
    sys.exit(main())
