"""Readers have the state as their transaction sees the ledger, beside its writer and each other."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from fleetledger.coordinator.core import state_fold
from fleetledger.coordinator.core.saved_state import _sources, parts_of_state, write_state
from fleetledger.coordinator.core.state import KINDS, State
from fleetledger.coordinator.core.state_fold import (
    StateKeeper,
    fold,
    folded,
    keep_snapshot,
    snapshots_of,
    state_of,
)
from fleetledger.coordinator.errors import FoldError, LedgerError
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.keys import coordinator_key
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.ledger.snapshots import StoredState
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


def whole(ledger: LedgerReader) -> dict[str, bytes]:
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


def kept(ledger: Ledger) -> StoredState:
    """Keep the state of a ledger, twice: of all entries but one, and of all."""
    for size in (ledger.size - 1, ledger.size):
        state = State()
        fold(state, ledger.entries(0, size))
        keep_snapshot(ledger, state)
    snapshots = snapshots_of(ledger)
    return snapshots.read(snapshots.files()[0], ledger)


def damage(stored: StoredState, name: str) -> None:
    """Change one byte of a part."""
    data = stored.path.read_bytes()
    place = data.index(stored.part(name), stored.start)
    stored.path.write_bytes(data[:place] + b"?" + data[place + 1 :])


def test_a_command_reads_the_parts_that_it_asks_for(
    tmp_path: Path, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    damage(kept(ledger), "contributions")
    with ledger_of(tmp_path) as reader:
        state = state_of(reader)
    assert state.models.devices is state.devices
    assert len(state.devices.admitted) == state.size == 5
    assert set(vars(state)) - {"_load"} == {"size", "lineages", "devices", "models"}
    assert not hasattr(state, "weather")
    assert not caplog.messages


@pytest.mark.parametrize("first", ["models", "devices", "size", "_changes"])
def test_a_part_that_turns_out_to_be_damaged_is_made_of_an_older_state_and_entries(
    tmp_path: Path, ledger: Ledger, first: str, caplog: pytest.LogCaptureFixture
) -> None:
    stored = kept(ledger)
    damage(stored, "devices")
    ledger.append([admitted(5)])
    with ledger_of(tmp_path) as reader, reader.snapshot():
        state = state_fold._of_snapshot(reader)
        getattr(state, first)
        fold(state, reader.checked_entries(state.size))
        assert write_state(state) == whole(reader)
    assert state.models.devices is state.devices
    (said,) = caplog.messages
    assert said.startswith(f"{stored.path}: not used, entries are read instead: ")
    assert "devices: its bytes have another digest" in said


def test_a_coordinator_finds_all_damage_before_it_begins(ledger: Ledger) -> None:
    stored = kept(ledger)
    damage(stored, "done")
    state, read = folded(ledger, forget=True)
    assert (write_state(state), read) == (whole(ledger), 1)
    assert not stored.path.exists()


def test_without_the_ledger_that_it_is_of_a_damaged_part_cannot_be_made(tmp_path: Path) -> None:
    path = ledger_path(tmp_path)
    coordinator_key(tmp_path, FLEET)
    with Ledger.open(path) as ledger:
        ledger.append([admitted(number) for number in range(5)])
        damage(kept(ledger), "models")
    with ledger_of(tmp_path) as reader:
        state = state_of(reader)
    for file in path.parent.glob("ledger.db*"):
        file.unlink()
    with Ledger.open(path) as ledger:
        ledger.append([admitted(number) for number in range(5, 15)])
    with pytest.raises(LedgerError, match="was exchanged meanwhile"):
        _ = state.models


def test_threads_that_ask_for_parts_at_once_get_the_same_ones(
    tmp_path: Path, ledger: Ledger
) -> None:
    kept(ledger)
    with ledger_of(tmp_path) as reader:
        state = state_of(reader)
    together = threading.Barrier(4)

    def ask(name: str) -> object:
        together.wait()
        return getattr(state, name)

    names = ["models", "devices", "models", "rollouts"]
    with ThreadPoolExecutor(4) as pool:
        models, devices, again, rollouts = pool.map(ask, names)
    assert models is again is state.models
    assert devices is state.devices is state.rollouts.devices
    assert rollouts is state.rollouts


def test_a_kept_state_hangs_on_every_module_that_it_imports() -> None:
    code = (
        "import sys; import fleetledger.coordinator.core.saved_state;"
        "print(*(name for name in sys.modules if name.startswith('fleetledger')))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(told.stdout.split())
    assert "fleetledger.schemas.values" in imported
    assert imported - {"fleetledger"} <= _sources().keys()


def types_in(hint: Any) -> Iterator[type[Any]]:
    """Yield the classes that a hint names."""
    if isinstance(hint, type) and not get_args(hint):
        yield hint
    for inside in get_args(hint):
        yield from types_in(inside)


def test_a_kept_state_hangs_on_every_module_that_has_a_type_of_a_field() -> None:
    """Whoever changes what an entry or the state may hold throws kept states away."""
    asked: list[type[Any]] = [kind.body for kind in KINDS.values()]
    asked += parts_of_state().objects
    met = set[type[Any]]()
    while asked:
        cls = asked.pop()
        if cls in met or not cls.__module__.startswith("fleetledger."):
            continue
        met.add(cls)
        asked += (base for base in cls.__mro__ if base is not cls)
        if issubclass(cls, BaseModel):
            for field in cls.model_fields.values():
                asked += types_in(field.annotation)
    modules = {cls.__module__ for cls in met}
    assert {"fleetledger.schemas.tags", "fleetledger.coordinator.topics.models.state"} <= modules
    assert modules <= _sources().keys()


@pytest.mark.parametrize(
    "name",
    [
        "runtime.log_lines",
        "runtime.commented_toml",
        "coordinator.core.state_fold",
        "coordinator.settings",
    ],
)
def test_another_word_in_a_report_or_a_log_throws_no_kept_state_away(name: str) -> None:
    assert f"fleetledger.{name}" not in _sources()
