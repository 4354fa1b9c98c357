"""Promise 2: a download ends with the right bytes, whatever dies meanwhile, and wastes little.

The receiver is a process of its own, behind a relay that counts every byte that the broker sends to
it, over all its runs. It is killed, the broker is killed, and between two runs bytes of the file in
which the blocks are collected are flipped.

python -m tests.promises.download [--megabytes 64] [--kills 10] [--broker-kills 3] [--flips 50]
                                  [--seed 1] [--runs 1] [--broker mosquitto|amqtt]
"""

from __future__ import annotations

import argparse
import logging
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from fleetledger.schemas.envelope import COORDINATOR, Sender
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, FleetId
from fleetledger.transport.brokers import Broker, EmbeddedBroker
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from fleetledger.transport.part_file import file_digest
from fleetledger.transport.transfer import BlockExchange
from tests.promises.brokers import DefaultMosquitto
from tests.promises.receiver import Plan
from tests.transport.relay import Relay

DEVICE = DeviceId("receiver")
MOST = 1.35
"""Times the size of the file that may reach the receiver."""
PATIENCE = 300.0
_LOOK_SECONDS = 0.005
_LAST = 0.9
"""Share of the file by which everything has been killed."""


@dataclass(frozen=True)
class Trouble:
    """What is fetched, and what is done meanwhile."""

    size: int
    kills: int
    broker_kills: int
    flips: int
    seed: int = 1
    rate: float = 16e6
    """Bytes per second from the broker to the receiver."""


@dataclass(frozen=True)
class Outcome:
    """How a download went."""

    bytes_down: int
    """To the receiver, over all its runs."""
    times: float
    """The same as a multiple of the file."""
    runs: int
    flipped: int
    seconds: float


class Download:
    """One download over a broker that runs; `run` kills what the seed says, when it says."""

    def __init__(self, broker: Broker, folder: Path, trouble: Trouble) -> None:
        self._broker = broker
        self._trouble = trouble
        self._random = Random(trouble.seed)
        self._path = folder / "received" / "model"
        self._plan = folder / "plan.json"
        self._relay = Relay(broker.host, broker.port, rate=trouble.rate)
        fleet = FleetId(f"fleet-{secrets.token_hex(4)}")
        self._coordinator = self._serving(FleetTopics(fleet))
        origin = folder / "origin"
        origin.write_bytes(self._random.randbytes(trouble.size))
        self.offer = self._coordinator.serve(origin)
        plan = Plan(
            fleet=fleet,
            device=DEVICE,
            port=self._relay.port,
            password=broker.credentials(DEVICE)[1],
            offer=self.offer,
            destination=self._path,
        )
        self._plan.write_text(plan.model_dump_json())
        self._child = self._start()
        self._runs, self._flipped = 1, 0

    def run(self) -> Outcome:
        """Go on until the receiver says that it has the file; raise `AssertionError` if not."""
        began = time.monotonic()
        for moment, happen in self._happenings():
            self._until(lambda: self._relay.bytes_down >= moment)  # noqa: B023 - called at once
            assert self._child.poll() is None, "the receiver ended before everything was killed"
            happen()
        self._until(lambda: self._child.poll() is not None)
        assert self._child.returncode == 0, f"the receiver ended with {self._child.returncode}"
        assert file_digest(self._path) == self.offer.digest
        down = self._relay.bytes_down
        seconds = time.monotonic() - began
        return Outcome(down, down / self._trouble.size, self._runs, self._flipped, seconds)

    def close(self) -> None:
        """End everything but the broker."""
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        self._coordinator.stop()
        self._relay.close()

    def _serving(self, topics: FleetTopics) -> BlockExchange:
        user, password = self._broker.credentials(COORDINATOR)
        settings = MqttSettings(
            client_id=f"{COORDINATOR}.data",
            port=self._broker.port,
            user=user,
            password=password,
            reconnect_shortest_seconds=0.05,
            reconnect_longest_seconds=0.5,
        )
        sender = Sender(topics.fleet, DeviceId(COORDINATOR), BootId.fresh())
        exchange = BlockExchange(MqttConnection(settings), topics, sender)
        exchange.start()
        return exchange

    def _happenings(self) -> list[tuple[int, Callable[[], None]]]:
        """Return what happens after how many bytes."""
        trouble = self._trouble
        each = [trouble.flips * (n + 1) // trouble.kills for n in range(trouble.kills)]
        counts = [after - before for before, after in zip([0, *each], each, strict=False)]
        what: list[Callable[[], None]] = [lambda n=n: self._kill(n) for n in counts]  # type: ignore[misc] # bound now
        what += [self._kill_broker] * trouble.broker_kills
        self._random.shuffle(what)
        step = _LAST * trouble.size / len(what)
        return [(round(step * (n + 1)), happen) for n, happen in enumerate(what)]

    def _kill(self, flips: int) -> None:
        self._child.kill()
        self._child.wait()
        part = self._path.with_name(self._path.name + ".part")
        # The first blocks came first, so most of these bytes were right before.
        here = max(1, round(0.8 * min(self._relay.bytes_down, self._trouble.size)))
        with part.open("r+b") as file:
            for _ in range(flips):
                at = self._random.randrange(here)
                file.seek(at)
                (byte,) = file.read(1)
                file.seek(at)
                file.write(bytes([byte ^ (1 << self._random.randrange(8))]))
                self._flipped += 1
        self._child = self._start()
        self._runs += 1

    def _kill_broker(self) -> None:
        self._broker.kill()
        self._broker.start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.promises.receiver", str(self._plan)],
            cwd=Path(__file__).parents[2],
        )

    def _until(self, happened: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not happened():
            assert time.monotonic() < end, f"nothing moves; {self._relay.bytes_down} bytes came"
            if self._child.poll() not in (None, 0):
                raise AssertionError(f"the receiver ended with {self._child.returncode}")
            if self._child.poll() is not None:
                return
            time.sleep(_LOOK_SECONDS)


def download(broker: Broker, folder: Path, trouble: Trouble) -> Outcome:
    """Run one download over a broker; raise `AssertionError` for a broken promise."""
    fetched = Download(broker, folder, trouble)
    try:
        outcome = fetched.run()
    finally:
        fetched.close()
    assert outcome.times <= MOST, f"{outcome.times:.2f} times the bytes"
    return outcome


def main() -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.promises.download", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--broker-kills", type=int, default=3)
    parser.add_argument("--flips", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--broker", choices=("mosquitto", "amqtt"), default="mosquitto")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    trouble = Trouble(
        given.megabytes * 1_000_000, given.kills, given.broker_kills, given.flips, given.seed
    )
    kind = DefaultMosquitto if given.broker == "mosquitto" else EmbeddedBroker
    for number in range(given.runs):
        with tempfile.TemporaryDirectory() as name, kind(Path(name) / "broker", [DEVICE]) as broker:
            one = replace(trouble, seed=trouble.seed + number)
            outcome = download(broker, Path(name), one)
        sys.stdout.write(
            f"seed {one.seed}: {given.megabytes} MB whole after {outcome.runs} runs of the "
            f"receiver, {outcome.flipped} flipped bytes and {given.broker_kills} broker kills: "
            f"{outcome.times:.3f} times the bytes, {outcome.seconds:.0f} s\n"
        )
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
