"""What our programs write is whole, or is not there, wherever they are killed or lose power."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from fleetledger.coordinator.ledger.blobs import BlobStore
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.device_agent.home.part_secret import SECRET_BYTES, device_secret
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.slots import ModelSlots, Slot
from fleetledger.schemas.values import Digest
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.part_file import PartFile
from tests.chaos.cutting import CutError, Scissors, cuts
from tests.chaos.disk import Disk, Drive
from tests.chaos.volume import Volume

DATA = b"some bytes that matter" * 200
DIGEST = Digest.of(DATA)


def nothing(_root: Path) -> None:
    """There is nothing to prepare."""


def kills_then_power_cuts(
    folder: Path, killed: Callable[[Path], object], then: Callable[[Path], object]
) -> Iterator[Path]:
    """Kill `killed` at every crash point, let `then` end, and cut the power after it."""
    for seed in range(6):
        at, ended = 0, False
        while not ended:
            root = folder / f"{seed}-{at}"
            root.mkdir()
            scissors = Scissors(at)
            volume = Volume(root, folder / f"shadow-{seed}-{at}", Random(seed))
            drive = Drive(volume, scissors.point)
            with Disk([drive]) as disk:
                try:
                    killed(root)
                    ended = True
                except CutError:
                    disk.crash(drive, power_cut=False)
                scissors.at = -1
                then(root)
                disk.crash(drive, power_cut=True)
            yield root
            at += 1


def slot(version: int) -> Slot:
    digest = Digest.of(f"{version}".encode())
    return Slot(version=version, manifest=digest, files=(digest,))


def test_the_agent_switches_models_whole_under_the_model_of_the_disk(tmp_path: Path) -> None:
    finished = []

    def prepare(root: Path) -> None:
        slots = ModelSlots(root / "slots")
        slots.install(slot(1))
        slots.install(slot(2))

    def install(root: Path) -> None:
        ModelSlots(root / "slots").install(slot(3))
        finished.append(root)

    for root in cuts(tmp_path, prepare, install):
        after = ModelSlots(root / "slots")
        assert after.active() in ((slot(3),) if root in finished else (slot(2), slot(3)))
        after.install(slot(3))
        assert (after.active(), after.other()) == (slot(3), slot(2))


def test_going_back_leaves_a_model_or_none_but_never_a_torn_one(tmp_path: Path) -> None:
    def prepare(root: Path) -> None:
        slots = ModelSlots(root / "slots")
        slots.install(slot(1))
        slots.install(slot(2))

    for root in cuts(tmp_path, prepare, lambda root: ModelSlots(root / "slots").go_back()):
        after = ModelSlots(root / "slots")
        assert after.active() in (slot(1), slot(2))


def test_a_blob_of_the_agent_is_whole_or_absent(tmp_path: Path) -> None:
    finished = []

    def put(root: Path) -> None:
        BlobFolder(root / "blobs").put(DATA)
        finished.append(root)

    for root in cuts(tmp_path, nothing, put):
        blobs = BlobFolder(root / "blobs")
        assert DIGEST in blobs.digests() or root not in finished
        assert DIGEST not in blobs.digests() or blobs.read(DIGEST) == DATA


def test_an_installed_model_keeps_the_files_that_a_killed_run_had_fetched(tmp_path: Path) -> None:
    def install(root: Path) -> None:
        blobs = BlobFolder(root / "blobs")
        if DIGEST not in blobs.digests():
            blobs.put(DATA)
        blobs.settle()
        ModelSlots(root / "slots").install(Slot(version=1, manifest=DIGEST, files=()))

    for root in kills_then_power_cuts(tmp_path, install, install):
        active = ModelSlots(root / "slots").active()
        assert active is not None
        assert BlobFolder(root / "blobs").read(active.manifest) == DATA


def test_a_model_that_a_start_finds_active_outlives_a_power_cut(tmp_path: Path) -> None:
    found = []

    def start(root: Path) -> None:
        found.append(ModelSlots(root / "slots").active())

    def install(root: Path) -> None:
        ModelSlots(root / "slots").install(slot(1))

    for root in kills_then_power_cuts(tmp_path, install, start):
        assert ModelSlots(root / "slots").active() == found[-1]
    assert None in found
    assert slot(1) in found


def test_the_secret_of_a_device_is_whole_and_stays(tmp_path: Path) -> None:
    known = {}

    def make(root: Path) -> None:
        known[root] = device_secret(root)

    for root in cuts(tmp_path, nothing, make):
        again = device_secret(root)
        assert len(again) == SECRET_BYTES
        assert again == known.get(root, again)


def test_a_blob_of_the_ledger_is_whole_or_absent(tmp_path: Path) -> None:
    finished = []

    def put(root: Path) -> None:
        BlobStore(root / "blobs").put(DATA)
        finished.append(root)

    for root in cuts(tmp_path, nothing, put):
        store = BlobStore(root / "blobs")
        assert store.has(DIGEST) or root not in finished
        assert not store.has(DIGEST) or store.get(DIGEST) == DATA


def test_a_blob_that_a_killed_run_left_is_durable_once_it_is_put_again(tmp_path: Path) -> None:
    def put(root: Path) -> None:
        BlobStore(root / "ledger" / "blobs").put(DATA)

    for root in kills_then_power_cuts(tmp_path, put, put):
        assert BlobStore(root / "ledger" / "blobs").get(DIGEST) == DATA


def test_another_blob_in_a_folder_that_a_killed_run_made_is_durable(tmp_path: Path) -> None:
    other = next(
        data for data in (b"%d" % n for n in range(9999)) if Digest.of(data)[:2] == DIGEST[:2]
    )

    def put(root: Path) -> None:
        BlobStore(root / "ledger" / "blobs").put(DATA)

    def put_other(root: Path) -> None:
        BlobStore(root / "ledger" / "blobs").put(other)

    for root in kills_then_power_cuts(tmp_path, put, put_other):
        assert BlobStore(root / "ledger" / "blobs").get(Digest.of(other)) == other


def test_the_folder_of_a_ledger_is_durable_when_the_ledger_is_open(tmp_path: Path) -> None:
    def open_ledger(root: Path) -> None:
        Ledger.open(root / "home" / "ledger" / "ledger.db").close()
        (root / "home" / "ledger" / "ledger.db").unlink()

    for root in kills_then_power_cuts(tmp_path, nothing, open_ledger):
        assert (root / "home" / "ledger").is_dir()


def test_a_fetched_file_is_whole_or_absent_and_its_part_file_is_of_use(tmp_path: Path) -> None:
    data = Random(1).randbytes(30_000)
    source = BlockSource(data, 4096)
    finished = []

    def fetch(root: Path) -> None:
        part = PartFile(source.offer, root / "file")
        for index in range(source.offer.block_count):
            part.write(index, data[index * 4096 : (index + 1) * 4096])
        part.finish()
        finished.append(root)

    for root in cuts(tmp_path, nothing, fetch, seeds=3):
        path = root / "file"
        assert path.exists() or root not in finished
        assert not path.exists() or path.read_bytes() == data
        if not path.exists():
            resumed = PartFile(source.offer, path)
            assert len(list(resumed.old_blocks())) == source.offer.block_count
            resumed.close()
