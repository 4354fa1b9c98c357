"""A home is verified with all that is kept beside its ledger, by one process or several."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleetledger.coordinator.core.saved_state import write_state
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.state_fold import fold, snapshots_of
from fleetledger.coordinator.errors import LedgerError
from fleetledger.coordinator.ledger.keys import key_folder
from fleetledger.coordinator.ledger.ranges import RANGE
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.ledger.verify import VerificationReport
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.program import home_verification
from fleetledger.coordinator.program.home_verification import VerifiedHome, verify_home
from fleetledger.coordinator.settings import load
from fleetledger.schemas.keys import KeyName, SigningKey
from tests.coordinator.core.test_state_fold import SIZE
from tests.coordinator.every_kind.facts import unpack
from tests.coordinator.ledger.support import draft, tampering

EDITED = "UPDATE entry SET actor = 'x' WHERE idx = 7"
ENTRIES = 2 * RANGE + 100


@pytest.fixture(scope="module")
def many_kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = unpack(tmp_path_factory.mktemp("kinds"))
    Ledger.open(ledger_path(home)).close()  # its tables are those of now
    return home


@pytest.fixture
def home(tmp_path: Path, many_kinds: Path) -> Path:
    return Path(shutil.copytree(many_kinds, tmp_path / "home"))


@pytest.fixture(scope="module")
def long_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("long")
    with Ledger.open(ledger_path(home)) as ledger:
        for start in range(0, ENTRIES, 1000):
            stop = min(start + 1000, ENTRIES)
            ledger.append([draft(n, kind="noted") for n in range(start, stop)])
    return home


@pytest.fixture
def long_home(tmp_path: Path, long_history: Path) -> Path:
    return Path(shutil.copytree(long_history, tmp_path / "home"))


def what(home: Path) -> VerifiedHome:
    settings = load(home) if (home / "coordinator.toml").is_file() else None
    return VerifiedHome(home, blob_folder(home), settings.fleet if settings else None)


def keep(home: Path, size: int, change: Callable[[State], None] = lambda _: None) -> Path:
    """Keep the state of so many entries, changed."""
    file = key_folder(home) / "coordinator.pem"
    if not file.exists():  # the public half stays: checkpoints are signed by another one
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(SigningKey.fresh(KeyName("own/coordinator")).pem)
    with ledger_of(home) as ledger:
        state = State()
        fold(state, ledger.entries(0, size))
        change(state)
        return snapshots_of(ledger).write(write_state(state), ledger, size)


def test_kept_states_that_the_entries_give_are_counted(home: Path) -> None:
    keep(home, 60)
    keep(home, SIZE)
    report = verify_home(what(home))
    assert (report.ok, report.entries, report.snapshots) == (True, SIZE, 2), str(report)
    assert "2 kept states are what they give" in str(report)


def hold(state: State) -> None:
    state.models.held_index = None if state.models.held else 7


def test_a_kept_state_that_is_another_one_is_named_and_thrown_away(home: Path) -> None:
    wrong, right = keep(home, 60, hold), keep(home, SIZE)
    report = verify_home(what(home))
    assert str(report).startswith("models of the kept state of 60 entries: digest should be ")
    assert "thrown away" in str(report)
    assert (wrong.exists(), right.exists()) == (False, True)
    assert verify_home(what(home)).ok


def test_a_damaged_one_which_no_start_takes_is_left_to_the_next_start(home: Path) -> None:
    path = keep(home, 60)
    path.write_bytes(path.read_bytes()[:-1])
    assert verify_home(what(home)).snapshots == 0
    assert path.exists()


def test_several_processes_say_what_one_says(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_verification, "_WORTH_A_PROCESS", 0)
    keep(home, 60)
    alone, together = (verify_home(what(home), jobs=jobs) for jobs in (1, 2))
    assert alone == together
    assert alone.ok, str(alone)
    assert alone.snapshots == 1


def test_several_processes_name_what_one_names(
    long_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home_verification, "_WORTH_A_PROCESS", 0)
    with tampering(ledger_path(long_home)) as connection:
        connection.execute(f"UPDATE entry SET actor = 'x' WHERE idx IN (7, {RANGE + 7})")
    alone, together = (verify_home(what(long_home), jobs=jobs) for jobs in (1, 2))
    assert alone == together
    assert alone.mismatch is not None
    assert (alone.mismatch.index, alone.entries) == (7, 7)


class StoppedError(BaseException):
    """Somebody pressed Ctrl-C."""


def interrupted(home: Path) -> None:
    def stop(done: int) -> None:
        if done > RANGE:
            raise StoppedError

    with pytest.raises(StoppedError):
        verify_home(what(home), progress=stop)


def walked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return where ranges begin that are looked at from now on."""
    walk, found = home_verification.walk_range, list[int]()

    def counted(*given: object) -> object:
        found.append(given[2])  # type: ignore[arg-type]
        return walk(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(home_verification, "walk_range", counted)
    return found


def test_an_interrupted_one_goes_on_where_it_was(
    long_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(long_home)
    found, seen = walked(monkeypatch), list[int]()
    report = verify_home(what(long_home), resume=True, progress=seen.append)
    assert (report.ok, report.entries) == (True, ENTRIES), str(report)
    assert found == [2 * RANGE]
    assert seen == [RANGE, 2 * RANGE, ENTRIES]
    assert report == verify_home(what(long_home)), "and says the same"
    assert list(long_home.rglob("*.verified")) == []


def test_who_does_not_ask_to_go_on_sees_everything(
    long_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(long_home)
    with tampering(ledger_path(long_home)) as connection:
        connection.execute(EDITED)
    found = walked(monkeypatch)
    assert mismatch_index(verify_home(what(long_home))) == 7
    assert found == [0]


def mismatch_index(report: VerificationReport) -> int | None:
    assert report.mismatch is not None
    return report.mismatch.index


def spoiled(home: Path) -> Iterator[bytes]:
    (path,) = home.rglob("*.verified")
    head, first, second, _ = path.read_bytes().split(b"\n")
    yield b""
    yield b"\n".join((head.replace(b'"size":', b'"size":9'), first, second, b""))
    yield b"\n".join((head.replace(b'"root":"', b'"root":"0')[:-2] + b'"}', first, second, b""))
    yield b"\n".join((head, first[:-9], second, b""))


def test_of_another_history_or_torn_nothing_is_taken(
    long_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(long_home)
    (path,) = long_home.rglob("*.verified")
    found = walked(monkeypatch)
    for content in list(spoiled(long_home)):
        path.write_bytes(content)
        found.clear()
        assert verify_home(what(long_home), resume=True).ok
        assert found == [0, RANGE, 2 * RANGE]


def test_where_nothing_can_be_noted_it_is_verified_all_the_same(
    long_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (long_home / "ledger" / "ledger.db.verified").mkdir()
    assert verify_home(what(long_home), resume=True).ok


def test_it_looks_at_one_state_while_the_writer_goes_on(long_home: Path) -> None:
    with Ledger.open(ledger_path(long_home)) as ledger:
        report = verify_home(
            what(long_home), progress=lambda _: ledger.append([draft(0, kind="noted")]) and None
        )
        assert (report.ok, report.entries) == (True, ENTRIES), str(report)
        assert ledger.size == ENTRIES + 3


def test_a_process_that_is_killed_is_told(long_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_verification, "_WORTH_A_PROCESS", 0)
    monkeypatch.setattr(home_verification, "_states", _die)
    with pytest.raises(LedgerError, match="was killed; give fewer --jobs"):
        verify_home(what(long_home), jobs=2)


def _die(_what: VerifiedHome) -> None:

    os.kill(os.getpid(), signal.SIGKILL)
