"""Promise 9 over a real Mosquitto: how long receipts take while one device does harm.

A real coordinator process and nine devices that send some contributions a second each. Every other
time another one sends ten times what the default settings let it, or a hundred of the costliest
header lines a second, or connects under everybody's name each second. Both take turns, so that what
else the machine does falls on both alike.

python -m tests.promises.quota [--attacks numerous ...] [--rounds 3] [--seconds 10] [--per-second 5]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import Process
from pathlib import Path

import psutil
from paho.mqtt.client import Client, MQTTMessage

from benchmarks.speed.contribution_rate.load import (
    FLEET,
    Plan,
    enrol,
    make_home,
    make_keys,
    make_messages,
    sealed_again,
    signed,
)
from benchmarks.speed.contribution_rate.serving import serving
from benchmarks.speed.transport_rate.raw import Peer, bare_client
from fleetledger.coordinator.core.rules import IntakeRules
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.live.file import read_live
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.lineages.entries import BackboneImported
from fleetledger.schemas.envelope import COORDINATOR, Sender, decode
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.receipts import Accepted, Later, Receipt
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.transport.access import fresh_client_id
from fleetledger.transport.brokers import MosquittoBroker
from tests.promises.hostile import Attacker, connect_as, send

TOPICS = FleetTopics(FLEET)
QUIET, PER_SECOND = 9, 5.0
DEFAULT = IntakeRules()
LOUD_PER_SECOND = 10 * DEFAULT.messages_per_minute / 60
COSTLY_PER_SECOND = 100.0
STRANGER = DeviceId("stranger")
PATIENCE = 120.0


@dataclass
class Talker:
    """A device that sends its contributions at an even pace and notes how long each took."""

    name: DeviceId
    client: Client
    messages: Sequence[bytes]
    per_second: float
    again: Callable[[bytes], bytes] | None = None
    """Makes a message anew that was put off; None where it is not sent again."""
    sent: dict[int, float] = field(default_factory=dict)
    waited: dict[int, float] = field(default_factory=dict)

    def begin(self) -> None:
        """Listen for receipts; returns once the broker sends them."""
        subscribed = threading.Event()
        self.client.on_message = self._heard
        self.client.on_subscribe = lambda *_: subscribed.set()
        self.client.subscribe(str(TOPICS.down(self.name, "rcpt")), qos=1)
        assert subscribed.wait(PATIENCE), "the broker is silent"

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
            case Later(after_seconds=seconds) if self.again is not None:
                renewed = self.again(self.messages[number])
                later = (str(TOPICS.up(self.name, "msg")), renewed, 1)
                threading.Timer(seconds, self.client.publish, later).start()


@dataclass(frozen=True)
class Attack:
    """What one device does to the others."""

    told: str
    keyed: bool = False
    """Whether the fleet requires keys, and all who are honest sign."""
    costly: bool = True
    """Whether it sends what is costly to read, and else very many contributions."""
    admitted: bool = True
    """In a fleet with keys it has one then, and signs well."""
    renames: bool = False
    """Whether it sends nothing, and connects under everybody's name once a second."""


ATTACKS = {
    "numerous": Attack("ten times the contributions it may send", costly=False),
    "costly": Attack("costly header lines of a device without a key"),
    "signed": Attack("costly header lines of a device with a key", keyed=True),
    "stranger": Attack(
        "costly header lines of a stranger, keys required", keyed=True, admitted=False
    ),
    "names": Attack("sessions under everybody's name, once a second", costly=False, renames=True),
}


@dataclass(frozen=True)
class Measured:
    """One round: the quiet devices' waits in seconds, and what the coordinator spent."""

    waits: Sequence[float]
    """Sorted."""
    processor_seconds: float
    loud_accepted: int
    named: tuple[str, ...]
    """Users of whom the coordinator says that somebody else may have their password."""

    @property
    def p95(self) -> float:
        """Of the waits."""
        return self.waits[int(0.95 * len(self.waits))]


@dataclass(frozen=True)
class Scene:
    """A broker, and a coordinator's home with everybody admitted."""

    broker: MosquittoBroker
    home: Path
    plan: Plan
    attack: Attack
    lineage: BackboneImported
    keys: Mapping[DeviceId, SigningKey]
    per_second: float
    """Contributions of each quiet device."""

    @property
    def attacker(self) -> DeviceId:
        """The name of its account at the broker."""
        return self.plan.names[0] if self.attack.admitted else STRANGER

    def talkers(self, birth: Digest) -> list[Talker]:
        """Return all that are honest, connected."""
        messages = make_messages(self.plan, self.lineage)
        if self.keys:
            messages = signed(messages, self.keys, birth)
        return [
            Talker(
                name,
                connected(self.broker, name),
                given,
                self.per_second,
                self._again(given, birth),
            )
            for name, given in zip(self.plan.names[1:], messages[1:], strict=True)
        ]

    def _again(self, given: Sequence[bytes], birth: Digest) -> Callable[[bytes], bytes]:
        """Return what makes a message anew: as it was, or under the run's next number if signed."""
        header = decode(given[0]).header
        sender = Sender(FLEET, header.sender, header.boot, next_sequence=len(given))
        sender.signer = self.keys.get(header.sender)
        if sender.signer is None:
            return lambda message: message
        return lambda message: sealed_again(sender, message, birth)

    def noise(self, birth: Digest, seconds: float) -> Process:
        """Return the attacker, a process that takes no time of those who measure."""
        seat = Peer(*self.broker.credentials(self.attacker))
        if self.attack.renames:
            users = (str(COORDINATOR), *self.plan.names)
            return Process(
                target=connect_as, args=(self.broker.port, seat, users, seconds), daemon=True
            )
        if not self.attack.costly:
            plan = replace(self.plan, devices=1, parts=round(LOUD_PER_SECOND * seconds))
            (messages,) = make_messages(plan, self.lineage)
            return Process(target=shout, args=(self.broker.port, seat, messages), daemon=True)
        signer = self.keys.get(self.attacker)
        attacker = Attacker(seat, FLEET, COSTLY_PER_SECOND, seconds, signer, birth)
        return Process(target=send, args=(self.broker.port, attacker), daemon=True)


@contextmanager
def scene(
    folder: Path, plan: Plan, attack: Attack, intake: IntakeRules, per_second: float
) -> Iterator[Scene]:
    """Start the broker, and set the coordinator's home up."""
    home = folder / "home"
    with MosquittoBroker(folder / "broker", [*plan.names, STRANGER]) as broker:
        lineage = make_home(home, plan, broker, intake, require_keys=attack.keyed)
        keys = make_keys(plan) if attack.keyed else {}
        if keys:
            enrol(home, keys)
        yield Scene(broker, home, plan, attack, lineage, keys, per_second)


def measure(
    folder: Path,
    seconds: float,
    attack: Attack,
    *,
    loud: bool,
    intake: IntakeRules = DEFAULT,
    per_second: float = PER_SECOND,
) -> Measured:
    """Let the devices talk to a new coordinator, and attack it meanwhile if it is to be `loud`."""
    plan = Plan(
        rounds=1, devices=QUIET + 1, parts=round(per_second * seconds), window=1, map_width=8
    )
    with scene(folder, plan, attack, intake, per_second) as here:
        with serving(here.broker, here.home, TOPICS) as served:
            quiet = here.talkers(served.birth)
            with beside(here.noise(served.birth, seconds) if loud else None):
                before = processor_seconds(served.process)
                talk(quiet)
                spent = processor_seconds(served.process) - before
            for one in quiet:
                one.client.disconnect()
                one.client.loop_stop()
        waits = sorted(wait for one in quiet for wait in one.waited.values())
        live = read_live(here.home)
        named = () if live is None else tuple(one.user for one in live.coordinator.misused)
        return Measured(waits, spent, taken_from(here.home, here.attacker), named)


@contextmanager
def beside(noise: Process | None) -> Iterator[None]:
    """Do something while a process makes noise, to whose end it is waited."""
    if noise is None:
        yield
        return
    noise.start()
    try:
        yield
    finally:
        noise.join()


def processor_seconds(process: int) -> float:
    """Return what a process has spent since its start."""
    return sum(psutil.Process(process).cpu_times()[:2])


def connected(broker: MosquittoBroker, name: DeviceId) -> Client:
    session = fresh_client_id(name, "control")
    return bare_client(broker.host, broker.port, Peer(*broker.credentials(name)), session)


def shout(port: int, peer: Peer, messages: Sequence[bytes]) -> None:
    """Be the loud device, in a process of its own that takes no time of those who measure."""
    client = bare_client("127.0.0.1", port, peer, peer.user)
    loud = Talker(DeviceId(peer.user), client, messages, LOUD_PER_SECOND)
    loud.speak(time.monotonic())
    client.disconnect()
    client.loop_stop()


def taken_from(home: Path, device: DeviceId) -> int:
    """Return how many contributions of a device the ledger has."""
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        entries = ledger.find(ContributionAccepted)
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


def side_by_side(
    attack: Attack, seconds: float, *, calm_first: bool, per_second: float = PER_SECOND
) -> float:
    """Measure without the attack and with it, tell what came of it and return the ratio."""
    found = {}
    for loud in (False, True) if calm_first else (True, False):
        with tempfile.TemporaryDirectory(dir=Path()) as name:
            found[loud] = measure(Path(name), seconds, attack, loud=loud, per_second=per_second)
    calm, noisy = found[False], found[True]
    ratio = noisy.p95 / calm.p95
    sys.stdout.write(
        f"p95 {calm.p95 * 1000:.0f} ms, beside the attack {noisy.p95 * 1000:.0f} ms, "
        f"{ratio:.2f} times; processor {calm.processor_seconds:.1f} s and "
        f"{noisy.processor_seconds:.1f} s; {noisy.loud_accepted} of its contributions taken in; "
        f"named: {', '.join(noisy.named) or 'nobody'}\n"
    )
    sys.stdout.flush()
    return ratio


def main() -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.promises.quota", description=__doc__)
    parser.add_argument("--attacks", nargs="+", choices=ATTACKS, default=list(ATTACKS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--per-second", type=float, default=PER_SECOND)
    given = parser.parse_args()
    medians = []
    for name in given.attacks:
        attack = ATTACKS[name]
        sys.stdout.write(f"{attack.told}:\n")
        ratios = [
            side_by_side(
                attack, given.seconds, calm_first=number % 2 == 0, per_second=given.per_second
            )
            for number in range(given.rounds)
        ]
        medians.append(statistics.median(ratios))
        sys.stdout.write(f"median of {len(ratios)} rounds: {medians[-1]:.2f} times\n")
    return 0 if max(medians) <= 2 else 1


if __name__ == "__main__":
    sys.exit(main())
