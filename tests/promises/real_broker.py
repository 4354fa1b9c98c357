"""Promise 1 with real programs: a Mosquitto as it is shipped, a coordinator, devices with outboxes.

Everything is a process of its own, and is killed outright by a seed, at moments that are counted in
receipts, also what keeps the state, and what mirrors the ledger. At last the mirror is
restored.

python -m tests.promises.real_broker [--contributions 10000] [--devices 10] [--seed 1] [--workers N]

With workers devices sign, so that workers check, and workers are killed, too.
"""

from __future__ import annotations

import argparse
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import psutil

from benchmarks.speed.contribution_rate.load import Plan, enrol, make_home, make_keys, make_messages
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.keys import public_key
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.paths import FILE_NAME, blob_folder, ledger_path
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.runtime.private_file import write_private
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.envelope import decode
from fleetledger.schemas.values import DeviceId
from tests.promises.brokers import DefaultMosquitto
from tests.promises.sender import open_outbox

ROOT = Path(__file__).parents[2]
PATIENCE = 900.0
_LOOK_SECONDS = 0.05
_EVERY = 64
"""Entries from one kept state to the next."""


@dataclass(frozen=True)
class Kills:
    """How often each kind of program is killed."""

    broker: int = 5
    coordinator: int = 5
    devices: int = 20
    workers: int = 0
    snapshots: int = 0
    mirror: int = 0


class RealFleet:
    """The processes, and what lies on their disks."""

    def __init__(
        self, folder: Path, broker: DefaultMosquitto, plan: Plan, workers: int = 0
    ) -> None:
        self._folder = folder
        self._broker = broker
        self._workers = workers
        self._ports = dict.fromkeys(plan.names, broker.port)
        """Of each device's broker."""
        self.home = folder / "home"
        lineage = make_home(self.home, plan, broker)
        with (self.home / FILE_NAME).open("a", encoding="utf-8") as settings:
            settings.write(f"\n[ledger]\nsnapshot_every = {_EVERY}\n")
        self.mirror = folder / "mirror"
        keys = make_keys(plan) if workers else {}
        enrol(self.home, keys)
        self._key_files = {name: folder / f"{name}.pem" for name in keys}
        for name, key in keys.items():
            write_private(self._key_files[name], key.pem)
        self.names = plan.names
        self.given: dict[tuple[DeviceId, int], str] = {}
        for name, messages in zip(plan.names, make_messages(plan, lineage), strict=True):
            self._fill(name, messages)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *, mirrored: bool = False) -> None:
        self._start_coordinator()
        if mirrored:
            self._start_mirror()
        for name in self.names:
            self._start_device(name)

    def stop(self) -> None:
        """Let the coordinator end in an orderly way, and kill what is left."""
        self._processes["coordinator"].terminate()
        self._processes["coordinator"].wait(PATIENCE)
        for process in self._processes.values():
            process.kill()
            process.wait()

    def kill_broker(self) -> None:
        self._broker.kill()
        self._broker.start()

    def kill_coordinator(self) -> None:
        self._kill("coordinator")
        self._start_coordinator()

    def kill_worker(self, random: Random) -> None:
        """Kill one of the coordinator's processes that read messages, of those that are there."""
        workers = self._children("spawn_main")
        if workers:
            random.choice(workers).kill()

    def kill_snapshot(self) -> None:
        """Kill the process that keeps the state, if one is at it."""
        for child in self._children("snapshotting"):
            child.kill()

    def kill_mirror(self) -> None:
        self._kill("mirror")
        self._start_mirror()

    def _children(self, word: str) -> list[psutil.Process]:
        coordinator = psutil.Process(self._processes["coordinator"].pid)
        return [child for child in coordinator.children() if word in str(_line(child))]

    def kill_device(self, name: DeviceId) -> None:
        self._kill(name)
        self._start_device(name)

    def move(self, name: DeviceId, port: int) -> None:
        """Have a device connect to another broker from its next start on."""
        self._ports[name] = port

    def receipts(self) -> dict[tuple[DeviceId, int], int]:
        """Return the place of every letter that has one, by its device's disk."""
        found = {}
        for name in self.names:
            uri = f"file:{self._outbox(name)}?mode=ro"
            db = sqlite3.connect(uri, uri=True, timeout=30)
            query = "SELECT part, place FROM letter WHERE place IS NOT NULL"
            found.update({(name, part): place for part, place in db.execute(query)})
            db.close()
        return found

    def check(self) -> None:
        """Fail where a program has ended that should not have, or for the wrong reason."""
        for name, process in self._processes.items():
            code = process.poll()
            lasting = name in ("coordinator", "mirror")
            assert code is None or (not lasting and code == 0), f"{name}: {code}"

    def _outbox(self, name: DeviceId) -> Path:
        return self._folder / f"{name}.db"

    def _fill(self, name: DeviceId, messages: list[bytes]) -> None:
        outbox = open_outbox(self._outbox(name))
        outbox.execute("BEGIN")
        for message in messages:
            body = decode(message).read(Contribution)
            self.given[name, body.key.part] = body.payload
            query = "INSERT INTO letter (part, message) VALUES (?, ?)"
            outbox.execute(query, [body.key.part, message])
        outbox.execute("COMMIT")
        outbox.close()

    def _start_coordinator(self) -> None:
        command = ["-m", "fleetledger", "coordinator", "serve", "--home", str(self.home)]
        self._start("coordinator", [*command, "--intake", str(self._workers)])

    def _start_mirror(self) -> None:
        end = time.monotonic() + PATIENCE
        while public_key(self.home) is None:  # it is made at the coordinator's first start
            assert time.monotonic() < end, "the coordinator made no key"
            time.sleep(_LOOK_SECONDS)
        home = ["--home", str(self.home)]
        follow = ["ledger", "mirror", str(self.mirror), "--follow", "--seconds", "0.1"]
        self._start("mirror", ["-m", "fleetledger", *follow, *home])

    def _start_device(self, name: DeviceId) -> None:
        _, password = self._broker.credentials(name)
        outbox = str(self._outbox(name))
        port = str(self._ports[name])
        command = ["-m", "tests.promises.sender", port, name, password, outbox]
        key_file = [str(self._key_files[name])] if self._key_files else []
        self._start(name, [*command, *key_file])

    def _start(self, name: str, command: list[str]) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen([sys.executable, *command], cwd=ROOT, stdout=log, stderr=log)
        self._processes[name] = process

    def _kill(self, name: str) -> None:
        self._processes[name].kill()
        self._processes[name].wait()


def _line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []  # it has just ended


def give_all(
    folder: Path,
    contributions: int,
    devices: int,
    kills: Kills,
    *,
    seed: int = 1,
    kind: type[DefaultMosquitto] = DefaultMosquitto,
    workers: int = 0,
) -> float:
    """Run a fleet to its end while it is killed; return the seconds that it took.

    Raises `AssertionError` for a broken promise.
    """
    plan = Plan(1, devices, contributions // devices, window=1, map_width=8)
    with kind(folder / "broker", plan.names) as broker:
        fleet = RealFleet(folder, broker, plan, workers)
        fleet.start(mirrored=kills.mirror > 0)
        began = time.monotonic()
        try:
            _trouble(fleet, plan.count, kills, Random(seed))
            receipts = fleet.receipts()
        finally:
            fleet.stop()
        seconds = time.monotonic() - began
    check_ledger(fleet, receipts)
    if kills.mirror:
        check_mirror(fleet, folder / "restored")
    return seconds


def _trouble(fleet: RealFleet, count: int, kills: Kills, random: Random) -> None:
    happenings: list[Callable[[], None]] = [
        *[fleet.kill_broker] * kills.broker,
        *[fleet.kill_coordinator] * kills.coordinator,
        *[lambda: fleet.kill_device(random.choice(fleet.names))] * kills.devices,
        *[lambda: fleet.kill_worker(random)] * kills.workers,
        *[fleet.kill_snapshot] * kills.snapshots,
        *[fleet.kill_mirror] * kills.mirror,
    ]
    random.shuffle(happenings)
    moments = sorted(random.randrange(1, round(0.95 * count)) for _ in happenings)
    end = time.monotonic() + PATIENCE
    while (received := len(fleet.receipts())) < count:
        assert time.monotonic() < end, f"{received} receipts came, then no more"
        fleet.check()
        if moments and received >= moments[0]:
            moments.pop(0)
            happenings.pop()()
        time.sleep(_LOOK_SECONDS)
    assert not happenings, "everything that was to be killed was killed"


def check_ledger(fleet: RealFleet, receipts: dict[tuple[DeviceId, int], int]) -> None:
    """Hold the ledger to what was given: each once, with its payload, where its receipt says."""
    with LedgerReader.open_read_only(ledger_path(fleet.home)) as ledger:
        accepted = list(ledger.find(ContributionAccepted))
        report = verify(ledger, Blobs(ledger, BlobStore(blob_folder(fleet.home))))
    assert len(accepted) == len(fleet.given)
    entries = {(item.device, item.body["part"]["key"]["part"]): item for item in accepted}
    assert {key: item.body["part"]["payload"] for key, item in entries.items()} == fleet.given
    assert {key: item.index for key, item in entries.items()} == receipts
    assert report.ok, report.mismatch


def check_mirror(fleet: RealFleet, target: Path) -> None:
    """Restore what was mirrored, brought up to date, and hold it to the ledger."""
    key = public_key(fleet.home)
    assert key is not None
    _carry_out("ledger", "mirror", str(fleet.mirror), "--home", str(fleet.home))
    _carry_out("ledger", "restore", str(fleet.mirror), "--home", str(target), "--key", str(key))
    with (
        LedgerReader.open_read_only(ledger_path(fleet.home)) as ledger,
        LedgerReader.open_read_only(ledger_path(target)) as restored,
    ):
        assert (restored.size, restored.root) == (ledger.size, ledger.root)
        report = verify(restored, Blobs(restored, BlobStore(blob_folder(target))))
    assert report.ok, report.mismatch


def _carry_out(*words: str) -> None:
    command = [sys.executable, "-m", "fleetledger", *words]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.promises.real_broker")
    parser.add_argument("--contributions", type=int, default=10_000)
    parser.add_argument("--devices", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0)
    given = parser.parse_args()
    kills = Kills(workers=20 if given.workers else 0, snapshots=20, mirror=20)
    with tempfile.TemporaryDirectory() as name:
        seconds = give_all(
            Path(name),
            given.contributions,
            given.devices,
            kills,
            seed=given.seed,
            workers=given.workers,
        )
    sys.stdout.write(
        f"seed {given.seed}: {given.contributions} contributions of {given.devices} devices count "
        "once each, every receipt names its entry, the ledger verifies, and its mirror restores "
        f"to it; {seconds:.0f} s\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
