"""A mirror restores to what was signed, wherever it was interrupted; of others nothing is taken."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from fleetledger.coordinator.errors import (
    AuditError,
    BlobCorruptError,
    BlobError,
    BlobMissingError,
    LedgerError,
)
from fleetledger.coordinator.ledger import audit as auditing
from fleetledger.coordinator.ledger import mirror as mirroring
from fleetledger.coordinator.ledger import tiles
from fleetledger.coordinator.ledger.audit import audit, signed_note
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore, prune_held
from fleetledger.coordinator.ledger.entries import Entry, EntryDraft, settled
from fleetledger.coordinator.ledger.entry_proofs import check, prove
from fleetledger.coordinator.ledger.keys import coordinator_key, note_reader, note_signer
from fleetledger.coordinator.ledger.mirror import Mirror, mirrored_blobs, pruned_mark
from fleetledger.coordinator.ledger.objects import objects_at
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.restore import LedgerOwner, Restored, restore
from fleetledger.coordinator.ledger.run_finding import in_runs
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.rounds.entries import AnswersPruned, WeightsPruned
from fleetledger.coordinator.topics.rounds.prunings import Prunings
from fleetledger.schemas.values import Digest, FleetId
from tests.chaos.cutting import cuts
from tests.chaos.disk import Disk, Drive
from tests.chaos.volume import Volume
from tests.coordinator.ledger.support import LARGE, SMALL, draft
from tests.coordinator.ledger.test_runs import TIME_NS, answers

FLEET = FleetId("orchard")
SIZES = (100, 250, 256, 300, 520)
"""Entries after each group."""


@dataclass(frozen=True)
class Home:
    """The home of a coordinator whose ledger is copied."""

    folder: Path

    @property
    def known(self) -> LedgerOwner:
        return LedgerOwner(FLEET, coordinator_key(self.folder, FLEET).verify_key, Prunings())

    def append(self, *sizes: int, name: str = "") -> None:
        with Ledger.open(
            ledger_path(self.folder), sign_note=note_signer(self.folder, FLEET)
        ) as ledger:
            blobs = Blobs(ledger, self.store)
            for size in sizes:
                small = blobs.stage([SMALL + b"%d" % size, LARGE + b"%d" % size])
                named = (Digest.of(SMALL + b"%d" % size), Digest.of(LARGE + b"%d" % size))
                drafts = [named_draft(number, name) for number in range(ledger.size, size)]
                ledger.append([*drafts[:-1], drafts[-1]._replace(blobs=named)], small)

    def append_drafts(self, drafts: list[EntryDraft]) -> None:
        signer = note_signer(self.folder, FLEET)
        with Ledger.open(ledger_path(self.folder), sign_note=signer) as ledger:
            ledger.append(drafts)

    @property
    def store(self) -> BlobStore:
        return BlobStore(blob_folder(self.folder))

    def mirror(self, location: str | Path, workers: int = 4) -> list[int]:
        """Bring a mirror up to date; return the sizes of its checkpoints on the way."""
        read_note = note_reader(self.folder, FLEET)
        assert read_note is not None
        with LedgerReader.open_read_only(ledger_path(self.folder)) as ledger:
            steps = Mirror(location, read_note, Prunings, workers=workers).steps(
                ledger, Blobs(ledger, self.store)
            )
            return [step.size for step in steps]

    def root_at(self, size: int) -> Digest:
        with LedgerReader.open_read_only(ledger_path(self.folder)) as ledger:
            return ledger.root_at(size)


def named_draft(number: int, name: str) -> EntryDraft:
    made = draft(number)
    return made._replace(body={**made.body, "name": name}) if name else made


def restored(home: Home, location: str | Path, target: Path) -> Restored:
    return restore(location, target, home.known)


def assert_equal_up_to(home: Home, target: Path, size: int) -> None:
    """Hold a restored ledger to the one that was mirrored, and to the check of everything."""
    with (
        LedgerReader.open_read_only(ledger_path(home.folder)) as ledger,
        LedgerReader.open_read_only(ledger_path(target)) as copy,
    ):
        assert copy.size == size
        assert list(copy.entries()) == list(ledger.entries(0, size))
        assert copy.root == ledger.root_at(size)
        report = verify(
            copy,
            Blobs(copy, BlobStore(blob_folder(target))),
            read_note=note_reader(home.folder, FLEET),
        )
        assert report.ok, str(report)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("whole"))
    home.append(*SIZES)
    return home


@pytest.fixture
def home(whole: Home, tmp_path: Path) -> Home:
    """The same, to be changed."""
    shutil.copytree(whole.folder, tmp_path / "home")
    return Home(tmp_path / "home")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is durable is the model's to say."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(params=["folder", "file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    start = {"folder": "", "file": "file://", "memory": "memory://"}[request.param]
    return f"{start}{tmp_path}/mirror"


def test_what_was_mirrored_is_restored_on_a_machine_that_has_nothing(
    whole: Home, place: str, tmp_path: Path
) -> None:
    assert whole.mirror(place) == [SIZES[-1]]
    report = restored(whole, place, tmp_path / "new")
    assert (report.checkpoint.size, report.blobs, report.pruned) == (SIZES[-1], 10, 0)
    assert_equal_up_to(whole, tmp_path / "new", SIZES[-1])
    with LedgerReader.open_read_only(ledger_path(tmp_path / "new")) as ledger:
        assert check(prove(ledger, 7), FLEET, [whole.known.key]).entry == ledger.entry(7)


def test_a_mirror_is_an_export_that_anybody_audits(whole: Home, place: str) -> None:
    whole.mirror(place)
    assert audit(place, FLEET, (whole.known.key,)).checkpoint.size == SIZES[-1]


def test_a_mirror_goes_on_where_it_is_and_says_what_is_new(tmp_path: Path) -> None:
    home, place = Home(tmp_path / "home"), tmp_path / "mirror"
    for size in SIZES:
        home.append(size)
        assert home.mirror(place) == [size]
        assert home.mirror(place) == []
        restored(home, place, tmp_path / f"new-{size}")
        assert_equal_up_to(home, tmp_path / f"new-{size}", size)


def test_long_ways_are_gone_in_steps_that_each_leave_a_checkpoint(
    whole: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirroring, "STEP_ENTRIES", 200)
    assert whole.mirror(tmp_path / "mirror") == [100, 300, 520]


def test_partial_tiles_go_when_the_full_one_is_signed(tmp_path: Path) -> None:
    home, place = Home(tmp_path / "home"), tmp_path / "mirror"
    for size in (100, 200):
        home.append(size)
        home.mirror(place)
    assert sorted(item.name for item in (place / "entries").iterdir()) == ["000.p"]
    assert sorted(item.name for item in (place / "entries" / "000.p").iterdir()) == ["100", "200"]
    home.append(256, 257)
    home.mirror(place)
    assert sorted(item.name for item in (place / "entries").iterdir()) == ["000", "001.p"]
    assert sorted(item.name for item in (place / "tile" / "0").iterdir()) == ["000", "001.p"]


def test_whoever_read_a_checkpoint_before_partial_tiles_went_finds_the_full_ones(
    tmp_path: Path,
) -> None:
    home, place = Home(tmp_path / "home"), tmp_path / "mirror"
    home.append(100)
    home.mirror(place)
    former = (place / "checkpoint").read_bytes()
    home.append(300)
    home.mirror(place)
    (place / "checkpoint").write_bytes(former)
    assert audit(place, FLEET, (home.known.key,)).checkpoint.size == 100
    restored(home, place, tmp_path / "new")
    assert_equal_up_to(home, tmp_path / "new", 100)


def test_what_retention_deleted_is_restored_as_deleted(home: Home, tmp_path: Path) -> None:
    gone = [Digest.of(content + b"256") for content in (SMALL, LARGE)]
    body = WeightsPruned(numbers=(1,), digests=tuple(gone), kept_rounds=1)
    home.append_drafts([EntryDraft(body.kind, "coordinator", body.model_dump(mode="json"))])
    with Ledger.open(ledger_path(home.folder)) as ledger:
        for digest in gone:
            prune_held(ledger, home.store, [digest])
    home.mirror(tmp_path / "mirror")
    report = restored(home, tmp_path / "mirror", tmp_path / "new")
    assert (report.blobs, report.pruned) == (8, 2)
    assert_equal_up_to(home, tmp_path / "new", SIZES[-1] + 1)


def test_a_mirror_that_says_of_a_blob_that_it_was_deleted_is_not_believed_without_an_entry(
    home: Home, tmp_path: Path
) -> None:
    place, lost = tmp_path / "mirror", Digest.of(LARGE + b"256")
    home.mirror(place)
    mirrored_blobs(place).delete(lost)
    mark = place / pruned_mark(lost)
    mark.parent.mkdir(parents=True)
    mark.write_text("70000\n")
    with pytest.raises(AuditError, match=f"{lost}.*no entry of the ledger says so"):
        restored(home, place, tmp_path / "new")
    assert not ledger_path(tmp_path / "new").exists()


def test_a_blob_marked_as_deleted_without_an_entry_is_not_mirrored(
    home: Home, tmp_path: Path
) -> None:
    lost = Digest.of(LARGE + b"256")
    with Ledger.open(ledger_path(home.folder)) as ledger:
        prune_held(ledger, home.store, [lost])
    with pytest.raises(BlobMissingError, match=f"{lost}.*no entry of the ledger says so"):
        home.mirror(tmp_path / "mirror")


def test_answers_of_a_round_are_deleted_by_one_entry() -> None:
    """Late ones, too; an answer to another round is missed."""
    answers = {1: Digest.of(b"one"), 2: Digest.of(b"two")}
    prunings = Prunings()
    for number, payload in answers.items():
        body = {"part": {"round": {"number": number}, "payload": payload}}
        entry = Entry(number, 0, ContributionAccepted.kind, "test", None, body, (payload,))
        prunings.apply(entry, [payload])
    assert prunings.unexplained() == answers[1]
    for number in answers:
        gone = AnswersPruned(number=number)
        prunings.apply(Entry(9, 0, gone.kind, "test", None, gone.model_dump(mode="json")), [])
        assert prunings.unexplained() == answers.get(number + 1)


def test_what_was_mirrored_before_retention_deleted_it_stays(home: Home, tmp_path: Path) -> None:
    home.mirror(tmp_path / "mirror")
    with Ledger.open(ledger_path(home.folder)) as ledger:
        prune_held(ledger, home.store, [Digest.of(LARGE + b"256")])
    assert restored(home, tmp_path / "mirror", tmp_path / "new").pruned == 0


def test_a_mirror_is_not_moved_back_and_not_to_another_history(home: Home, tmp_path: Path) -> None:
    place, backup = tmp_path / "mirror", Home(tmp_path / "backup")
    shutil.copytree(home.folder, backup.folder)
    home.append(530)
    home.mirror(place)
    before = snapshot(place)
    with pytest.raises(AuditError, match="has 530 entries, and the ledger here 520"):
        backup.mirror(place)
    backup.append(540, name="other")
    with pytest.raises(AuditError, match="there are two histories"):
        backup.mirror(place)
    stranger = Home(tmp_path / "stranger")
    stranger.append(600)
    with pytest.raises(AuditError, match="not signed by"):
        stranger.mirror(place)
    assert snapshot(place) == before


def test_another_history_that_was_never_signed_there_is_noticed(home: Home, tmp_path: Path) -> None:
    place = tmp_path / "mirror"
    fork = Home(tmp_path / "fork")
    shutil.copytree(home.folder, fork.folder)
    home.mirror(place)
    former = (place / "checkpoint").read_bytes()
    home.append(530)
    home.mirror(place)
    (place / "checkpoint").write_bytes(former)  # as if it had ended before the last write
    fork.append(530, name="other")
    with pytest.raises(AuditError, match=r"entries/002.p/18.*another history"):
        fork.mirror(place)
    assert home.mirror(place) == [530]


def test_torn_objects_beyond_the_checkpoint_are_put_again(whole: Home, tmp_path: Path) -> None:
    whole.mirror(tmp_path / "mirror")
    (tmp_path / "mirror" / "checkpoint").unlink()
    for torn in ("entries/001", "tile/0/000", blob_name(LARGE + b"256")):
        file = tmp_path / "mirror" / torn
        file.write_bytes(file.read_bytes()[:-9])
    assert whole.mirror(tmp_path / "mirror") == [SIZES[-1]]
    restored(whole, tmp_path / "mirror", tmp_path / "new")


def test_a_blob_that_is_missing_or_damaged_here_ends_the_mirroring(
    home: Home, tmp_path: Path
) -> None:
    file = blob_folder(home.folder) / blob_name(LARGE + b"256").removeprefix("blobs/")
    file.write_bytes(file.read_bytes()[::-1])
    for place in (str(tmp_path / "mirror"), f"memory://{tmp_path}/mirror"):
        with pytest.raises(BlobCorruptError):
            home.mirror(place)
        assert not Mirror(place, lambda _: (0, Digest.of(b"")), Prunings).blobs.has(
            Digest.of(LARGE + b"256")
        )
    file.unlink()
    with pytest.raises(BlobMissingError, match="is missing here"):
        home.mirror(tmp_path / "mirror")
    assert not (tmp_path / "mirror" / "checkpoint").exists()


def blob_name(content: bytes) -> str:
    digest = Digest.of(content)
    return f"blobs/{digest[:2]}/{digest}"


def snapshot(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def _flip(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[-5] ^= 1
        (folder / name).write_bytes(bytes(data))

    return change


def _edit(folder: Path) -> None:
    file = folder / "entries" / "000"
    file.write_bytes(file.read_bytes().replace(b'"hund":7', b'"hund":8', 1))


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        (_flip("checkpoint"), AuditError, "checkpoint"),
        (lambda folder: (folder / "checkpoint").unlink(), AuditError, "checkpoint: is not there"),
        (_edit, AuditError, "some were changed"),
        (_flip("entries/001"), AuditError, "entries/001"),
        (lambda folder: (folder / "entries" / "001").unlink(), AuditError, "entries/001"),
        (_flip(blob_name(SMALL + b"256")), BlobCorruptError, Digest.of(SMALL + b"256")),
        (_flip(blob_name(LARGE + b"256")), BlobCorruptError, Digest.of(LARGE + b"256")),
        (
            lambda folder: (folder / blob_name(LARGE + b"256")).unlink(),
            BlobMissingError,
            "does not say that it was deleted",
        ),
    ],
    ids=["note", "no note", "edited", "entry", "no tile", "small", "large", "no blob"],
)
def test_what_is_not_as_it_was_signed_becomes_no_ledger(
    whole: Home,
    tmp_path: Path,
    change: Callable[[Path], None],
    error: type[Exception],
    named: str,
) -> None:
    place = tmp_path / "mirror"
    whole.mirror(place)
    sound = snapshot(place)
    change(place)
    with pytest.raises(error, match=named):
        restored(whole, place, tmp_path / "new")
    assert not ledger_path(tmp_path / "new").exists()
    for file, data in sound.items():
        file.write_bytes(data)
    restored(whole, place, tmp_path / "new")
    assert_equal_up_to(whole, tmp_path / "new", SIZES[-1])


def test_a_mirror_that_somebody_else_signed_becomes_no_ledger(whole: Home, tmp_path: Path) -> None:
    whole.mirror(tmp_path / "mirror")
    other = Home(tmp_path / "other")
    with pytest.raises(AuditError, match="not signed by"):
        restored(other, tmp_path / "mirror", tmp_path / "new")


def test_a_home_that_has_a_ledger_is_left_alone(whole: Home, home: Home, tmp_path: Path) -> None:
    whole.mirror(tmp_path / "mirror")
    before = snapshot(home.folder)
    with pytest.raises(LedgerError, match="is there already"):
        restored(whole, tmp_path / "mirror", home.folder)
    assert snapshot(home.folder) == before


def test_a_restoration_that_was_interrupted_begins_again(whole: Home, tmp_path: Path) -> None:
    class EndError(Exception):
        pass

    def end(done: int, _: int) -> None:
        if done >= 256:
            raise EndError

    whole.mirror(tmp_path / "mirror")
    with pytest.raises(EndError):
        restore(tmp_path / "mirror", tmp_path / "new", whole.known, progress=end)
    assert not ledger_path(tmp_path / "new").exists()
    restored(whole, tmp_path / "mirror", tmp_path / "new")
    assert_equal_up_to(whole, tmp_path / "new", SIZES[-1])
    assert sorted(item.name for item in (tmp_path / "new").iterdir()) == ["ledger"]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of four, so that a handful of entries fills several."""
    for module in (tiles, auditing):
        monkeypatch.setattr(module, "TILE_WIDTH", 4)
        monkeypatch.setattr(module, "TILE_LEVELS", 2)
    monkeypatch.setattr(mirroring, "STEP_ENTRIES", 1)


class Killed:
    """Keeps what a kill would leave of a mirror before each effect on the disk, each state once."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.points = 0
        self.left: dict[frozenset[tuple[str, bytes]], Path] = {}
        self._root, self._folder = root, folder

    def point(self, _: str) -> None:
        self.points += 1
        state = frozenset(comparable(self._root).items())
        if state not in self.left:
            self.left[state] = self._folder / str(len(self.left))
            shutil.copytree(self._root, self.left[state])


@pytest.mark.usefixtures("quick", "narrow")
def test_wherever_a_mirror_is_killed_it_restores_to_its_checkpoint_and_goes_on(
    tmp_path: Path,
) -> None:
    home, root = Home(tmp_path / "home"), tmp_path / "mirror"
    home.append(3, 5, 9)
    root.mkdir()
    killed = Killed(root, tmp_path / "killed")
    with Disk([Drive(Volume(root, tmp_path / "shadow", Random(0)), killed.point)]):
        home.mirror(root, workers=1)
    whole, sizes = comparable(root), set()
    for left in killed.left.values():
        sizes.add(restored_size(home, left, tmp_path / "new"))
        home.mirror(left, workers=1)
        assert comparable(left) == whole
    assert sizes == {0, 3, 5, 9}
    assert killed.points > 150
    assert len(killed.left) >= len(whole)


@pytest.mark.usefixtures("quick", "narrow")
def test_wherever_the_power_goes_a_mirror_restores_to_its_checkpoint_and_goes_on(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path / "home")
    home.append(3, 5)
    home.mirror(tmp_path / "whole")
    whole, left = comparable(tmp_path / "whole"), dict[frozenset[tuple[str, bytes]], int]()
    for root in cuts(
        tmp_path / "cut",
        lambda _: None,
        lambda root: void(home.mirror(root, workers=1)),
        seeds=1,
    ):
        state = frozenset(comparable(root).items())
        if state not in left:
            left[state] = restored_size(home, root, tmp_path / "new")
            home.mirror(root, workers=1)
            assert comparable(root) == whole
    assert set(left.values()) == {0, 3, 5}
    assert len(left) >= len(whole)


def void(_: object) -> None:
    """Drop a result."""


def restored_size(home: Home, root: Path, target: Path) -> int:
    """Restore what lies in a mirror, if it has a checkpoint, and hold it to the ledger."""
    if not (root / "checkpoint").exists():
        return 0
    size = signed_note(objects_at(root), FLEET, (home.known.key,))[1].size
    restored(home, root, target)
    assert_equal_up_to(home, target, size)
    shutil.rmtree(target)
    return size


def comparable(root: Path) -> dict[str, bytes]:
    """What lies in a mirror, without what was on its way, and partial tiles that may be gone."""
    files = {str(file.relative_to(root)): data for file, data in snapshot(root).items()}
    return {
        name: data
        for name, data in files.items()
        if "incoming/" not in name and name.partition(".p/")[0] in (name, *_partial(files))
    }


def _partial(files: Collection[str]) -> Iterator[str]:
    """Yield the tiles of which there is no full one."""
    tiles = {name.partition(".p/")[0] for name in files if ".p/" in name}
    yield from tiles - set(files)


def test_a_place_that_refuses_is_named(whole: Home, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"in the way")
    with pytest.raises(BlobError, match="file/"):
        whole.mirror(tmp_path / "file")
    with pytest.raises(BlobError, match="cannot be opened"):
        whole.mirror("nonsense://bucket")


def test_a_mirror_of_runs_restores_to_runs(tmp_path: Path) -> None:
    home, other = Home(tmp_path / "home"), Home(tmp_path / "other")
    given = answers(300)
    drafts = [one._replace(body={**one.body, "part": of_round(one)}) for one in given]
    sizes = {one.blobs[0]: 100 + number for number, one in enumerate(drafts)}
    told = EntryDraft("answers.pruned", "core", {"number": 7}, time_ns=TIME_NS)
    group = [*map(settled, drafts), told]
    for one, entries in ((home, in_runs(group)), (other, group)):
        signer = note_signer(one.folder, FLEET)
        with Ledger.open(ledger_path(one.folder), sign_note=signer, clock=lambda: 1) as ledger:
            ledger.append(entries, pruned=sizes)
    assert home.mirror(tmp_path / "mirror") == other.mirror(tmp_path / "slow") == [301]
    folders = [sorted(tmp_path.glob(f"{name}/[ept]*/**/*")) for name in ("mirror", "slow")]
    assert len(folders[0]) == len(folders[1]) > 300
    for one, slow in zip(*folders, strict=True):
        assert one.is_dir() or one.read_bytes() == slow.read_bytes()
    report = restored(home, tmp_path / "mirror", tmp_path / "new")
    assert (report.blobs, report.pruned) == (0, 300)
    assert_equal_up_to(home, tmp_path / "new", 301)
    with LedgerReader.open_read_only(ledger_path(tmp_path / "new")) as copy:
        assert [head.size for head in copy.runs.heads()] == [256, 44]
        assert copy.db.execute("SELECT count(*) FROM blob").fetchone() == (0,)


def of_round(draft: EntryDraft) -> dict[str, object]:
    return {**draft.body["part"], "round": {"number": 7}}
