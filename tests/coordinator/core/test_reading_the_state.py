"""Readers have the state as their transaction sees the ledger, beside its writer and each other."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fleetledger.coordinator.core import state_fold
from fleetledger.coordinator.core.saved_state import _sources, write_state
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.state_fold import StateKeeper, fold, snapshots_of, state_of
from fleetledger.coordinator.errors import FoldError, LedgerError
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.keys import coordinator_key
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.paths import ledger_path
from tests.coordinator.core.harness import FLEET

MANY = 60


def admitted(number: int) -> EntryDraft:
    body = {"device": f"device-{number}"}
    return EntryDraft("device.admitted", "operator", body, time_ns=number + 1)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Return a ledger that is being written."""
    coordinator_key(tmp_path, FLEET)
    with Ledger.open(ledger_path(tmp_path)) as ledger:
        ledger.append([admitted(number) for number in range(5)])
        yield ledger


def whole(ledger: LedgerReader) -> bytes:
    state = State()
    fold(state, ledger.entries())
    return write_state(state)


def test_readers_beside_a_writer_see_the_state_of_their_transaction(
    tmp_path: Path, ledger: Ledger
) -> None:
    keeper, ended = StateKeeper(tmp_path), threading.Event()

    def look() -> set[int]:
        sizes = set[int]()
        while not ended.is_set() or not sizes:
            with keeper.reading() as reader:
                state = state_of(reader)
                assert state.size == reader.size
                assert write_state(state) == whole(reader)
                sizes.add(state.size)
        return sizes

    with ThreadPoolExecutor(3) as pool:
        looks = [pool.submit(look) for _ in range(3)]
        for number in range(5, MANY):
            ledger.append([admitted(number)])
        ended.set()
        assert set.union(*(look.result() for look in looks)) <= set(range(5, MANY + 1))
    with keeper.reading() as reader:
        assert state_of(reader).size == MANY


def test_a_second_reader_of_the_same_size_waits_for_nobody(tmp_path: Path, ledger: Ledger) -> None:
    keeper = StateKeeper(tmp_path)
    with keeper.reading() as one, keeper.reading() as other:
        assert state_of(one) is state_of(other)
    assert ledger.size == 5


def test_a_restored_ledger_is_folded_from_its_beginning(tmp_path: Path) -> None:
    keeper, path = StateKeeper(tmp_path), ledger_path(tmp_path)
    for first in (0, 7):
        with Ledger.open(path) as ledger:
            ledger.append([admitted(number) for number in range(first, first + 3)])
        with keeper.reading() as reader:
            assert set(state_of(reader).devices.admitted) == {
                f"device-{number}" for number in range(first, first + 3)
            }
        for file in path.parent.glob("ledger.db*"):
            file.unlink()


def test_an_entry_that_cannot_be_applied_is_named_and_all_else_can_be_read(
    tmp_path: Path, ledger: Ledger
) -> None:
    keeper = StateKeeper(tmp_path)
    with keeper.reading() as reader:
        assert state_of(reader).size == 5
    ledger.append([EntryDraft("weather.changed", "operator", {}, time_ns=9)])
    for _ in range(2):
        with keeper.reading() as reader:
            assert reader.entry(5).kind == "weather.changed"
            with pytest.raises(FoldError, match=r"entry 5 \(weather.changed\): cannot be applied"):
                state_of(reader)
    with ledger_of(tmp_path) as reader, pytest.raises(LedgerError, match="`fleetledger ledger ve"):
        state_of(reader)


def test_a_reader_that_had_to_fold_much_keeps_it_for_the_next_one(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_fold, "_MANY", 4)
    with ledger_of(tmp_path) as reader:
        state_of(reader)
        assert [path.stem for path in snapshots_of(reader).files()] == ["5"]
    ledger.append([admitted(5)])
    with ledger_of(tmp_path) as reader:
        assert state_of(reader).size == 6
        assert [path.stem for path in snapshots_of(reader).files()] == ["5"], "it was near enough"


def test_a_kept_state_hangs_on_every_file_that_the_state_imports() -> None:
    code = (
        "import sys; import fleetledger.coordinator.core.state;"
        "print(*(m.__file__ for n, m in sys.modules.items()"
        " if n.startswith('fleetledger.') and m.__file__), sep='\\n')"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = {Path(line).resolve() for line in told.stdout.split()}
    digested = {path.resolve() for path in _sources()}
    missing = {
        path.name for path in imported - digested if path.parent.name not in {"coordinator", "live"}
    }
    assert not missing
