"""Promise 2: a download ends with the right bytes or with a reason, and goes on where it was cut.

`python -m tests.promises.download` does 64 MB with ten kills; see docs/promises.md.
"""

import shutil
import time
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from fleetledger.schemas.values import Digest
from fleetledger.transport.block_receiver import BlockReceiver, FetchedFile
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.brokers import Broker, EmbeddedBroker, find_mosquitto
from fleetledger.transport.faults import Faults
from fleetledger.transport.memory import InMemoryBroker
from tests.device_agent import making
from tests.device_agent import model_files as models
from tests.device_agent.scripted import (
    FAST,
    RunningAgent,
    ScriptedCoordinator,
    eventually,
    greet,
    settle,
    stsa_assignment,
)
from tests.promises.brokers import DefaultMosquitto
from tests.promises.download import DEVICE, Trouble, download

CUTS = 200
BLOCK = 4096
BLOCKS = 30
SIZE = (BLOCKS - 1) * BLOCK + 17


@pytest.mark.broker
@pytest.mark.parametrize(
    ("kind", "trouble"),
    [
        (DefaultMosquitto, Trouble(8_000_000, kills=3, broker_kills=1, flips=10)),
        (EmbeddedBroker, Trouble(4_000_000, kills=1, broker_kills=1, flips=5)),
    ],
)
def test_a_download_ends_whatever_dies(
    kind: type[Broker], trouble: Trouble, tmp_path: Path
) -> None:
    if kind is DefaultMosquitto and find_mosquitto() is None:
        pytest.skip("mosquitto is not installed: `apt install mosquitto`")
    if kind is EmbeddedBroker:
        pytest.importorskip("amqtt")
    with kind(tmp_path / "broker", [DEVICE]) as broker:
        outcome = download(broker, tmp_path, trouble)
    assert (outcome.runs, outcome.flipped) == (trouble.kills + 1, trouble.flips)


def steps(receiver: BlockReceiver, source: BlockSource, blocks: int) -> None:
    """Give a receiver so many blocks that it asks for, or all until it ends."""
    now = 0.0
    while receiver.outcome is None and blocks > 0:
        now = max(now + 0.01, receiver.next_time(now))
        for request in receiver.requests(now):
            for label, some in source.answer(request):
                blocks -= -(-len(some) // BLOCK)
                if blocks >= 0:
                    receiver.receive(label, some, now)


def as_killed(folder: Path, copy: Path) -> Path:
    """Return what a killed program leaves: what it had handed to the system, and no more."""
    shutil.copytree(folder, copy)
    return copy


def spoil(part: Path, random: Random) -> str:
    """Do to a part file what disks and people do to files; say what."""
    data = bytearray(part.read_bytes())
    what = random.choice(["nothing", "flip", "cut", "extend", "tear", "zero", "rubbish", "gone"])
    match what:
        case "flip":
            for _ in range(5):
                data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        case "cut":
            del data[random.randrange(len(data)) :]
        case "extend":
            data += random.randbytes(random.randrange(1, 3 * BLOCK))
        case "tear":
            at = random.randrange(len(data))
            data[at : at + 512] = bytes(len(data[at : at + 512]))
        case "zero":
            data = bytearray(len(data))
        case "rubbish":
            data = bytearray(random.randbytes(random.randrange(2 * SIZE)))
    if what == "gone":
        part.unlink()
    else:
        part.write_bytes(data)
    return what


def test_a_download_goes_on_from_every_state_of_its_part_file(tmp_path: Path) -> None:
    seen = set()
    for cut in range(CUTS):
        random = Random(cut)
        data = random.randbytes(SIZE)
        source = BlockSource(data, BLOCK)
        first = tmp_path / str(cut)
        receiver = BlockReceiver(source.offer, first / "model", now=0.0, deadline=600.0)
        steps(receiver, source, random.randrange(1, BLOCKS + 1))
        receiver_left = as_killed(first, tmp_path / f"{cut}-after") if first.exists() else first
        part = receiver_left / "model.part"
        if part.exists():
            seen.add(spoil(part, random))
        right = right_blocks(part, data)

        again = BlockReceiver(source.offer, receiver_left / "model", now=0.0, deadline=600.0)
        steps(again, source, 10 * BLOCKS)

        assert again.outcome == FetchedFile(receiver_left / "model"), cut
        assert Digest.of((receiver_left / "model").read_bytes()) == source.offer.digest
        assert again.counts.resumed == right, cut
        assert again.counts.asked == BLOCKS - right + 1, "what is missing, and the list of hashes"
        receiver.abandon("cut")
    assert len(seen) == 8


def right_blocks(part: Path, data: bytes) -> int:
    """Return how many blocks of a part file are right, counted one by one."""
    if not part.exists():
        return 0
    found = part.read_bytes()[:SIZE].ljust(SIZE, b"\0")
    starts = range(0, SIZE, BLOCK)
    return sum(found[at : at + BLOCK] == data[at : at + BLOCK] for at in starts)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    models.put_pictures(tmp_path / "home" / "data", "dark", 1, 2)
    settle(tmp_path / "home" / "data")
    (tmp_path / "home" / "test").mkdir()
    return tmp_path / "home"


def test_an_endless_outage_ends_in_failed_within_five_seconds_of_the_deadline(home: Path) -> None:
    broker = InMemoryBroker()
    coordinator = ScriptedCoordinator.in_memory(broker)
    deadline = 1.0
    running = RunningAgent(broker, home, replace(FAST, deadline_seconds=deadline))
    try:
        greet(coordinator)
        coordinator.assign(stsa_assignment()[0])
        coordinator.desire(making.desired(7, 3))  # and nobody ever serves its files
        state = running.agent._parts.state
        eventually(lambda: state.records.waited is not None)
        began = time.monotonic()
        broker.faults = Faults(drop=1.0)
        broker.restart()
        eventually(lambda: state.records.status is not None)
        assert time.monotonic() - began <= deadline + 5
        status = state.records.status
        assert status is not None
        assert status.state == "failed"
        assert status.reason.startswith("deadline: ")
    finally:
        running.stop()
        coordinator.stop()
