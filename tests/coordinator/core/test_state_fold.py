"""A start goes on from a kept state, which the entries give, whatever became of its file."""

from __future__ import annotations

import functools
import gc
import json
import logging
import shutil
import time
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from fleetledger.coordinator import serve
from fleetledger.coordinator.core import state_fold
from fleetledger.coordinator.core.rules import Rules
from fleetledger.coordinator.core.saved_state import parts_of_state, read_state, write_state
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.state_fold import fold, folded, keep_snapshot, snapshots_of
from fleetledger.coordinator.ledger import columns
from fleetledger.coordinator.ledger.keys import coordinator_key
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.program import engine as engine_module
from fleetledger.coordinator.program.engine import LedgerEngine
from fleetledger.coordinator.program.operator import OperatorInbox
from fleetledger.coordinator.program.snapshot_keeper import SnapshotKeeper
from fleetledger.coordinator.settings import CoordinatorSettings, LedgerSection, load, write_new
from fleetledger.coordinator.topics.clock.entries import ClockCorrected
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.schemas.values import DeviceId, Digest
from tests.chaos.cutting import cuts
from tests.coordinator.core.harness import FLEET
from tests.coordinator.every_kind.facts import FACTS, unpack
from tests.coordinator.program.test_engine import begun

SIZE: int = json.loads(FACTS.read_text("utf-8"))["size"]
"""Entries of the stored ledger."""


@pytest.fixture(scope="module")
def many_kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home whose ledger has nearly every kind of entry."""
    return unpack(tmp_path_factory.mktemp("kinds"))


@pytest.fixture
def home(tmp_path: Path, many_kinds: Path) -> Path:
    """Return a copy of that ledger in a home of its own."""
    shutil.copytree(many_kinds / "ledger", tmp_path / "home" / "ledger")
    coordinator_key(tmp_path / "home", FLEET)
    return tmp_path / "home"


def state_of(ledger: LedgerReader, size: int) -> State:
    state = State()
    fold(state, ledger.entries(0, size))
    return state


def keep(home: Path, size: int) -> None:
    with ledger_of(home) as ledger:
        keep_snapshot(ledger, state_of(ledger, size))


def opened(home: Path) -> tuple[dict[str, bytes], int]:
    """Return the state that a coordinator begins with, and the size of the snapshot it took."""
    engine = LedgerEngine.open(home, Rules())
    try:
        return write_state(engine.core.state), engine.snapshot_size
    finally:
        engine.close()


def test_a_state_kept_at_any_size_becomes_the_same_by_the_entries_behind_it(
    many_kinds: Path,
) -> None:
    with ledger_of(many_kinds) as ledger:
        entries = list(ledger.entries())
        whole, kept = State(), dict[int, dict[str, bytes]]()
        for entry in entries:
            if whole.size % 9 == 0:
                kept[whole.size] = write_state(whole)
            fold(whole, [entry])
        for size, data in kept.items():
            state = read_state(data.__getitem__)
            fold(state, entries[size:])
            assert state == whole
            assert write_state(state) == write_state(whole)


def held_by(value: Any) -> dict[str, Any]:
    """Return what an object holds by name; one with slots has its fields alone."""
    if hasattr(value, "__dict__"):
        return vars(value)
    return {item.name: getattr(value, item.name) for item in fields(value)}


def objects(value: Any, seen: set[int]) -> Iterator[Any]:
    if is_dataclass(value) and id(value) not in seen:
        seen.add(id(value))
        yield value
        for found in held_by(value).values():
            yield from objects(found, seen)
    elif isinstance(value, dict):
        for pair in value.items():
            yield from (found for item in pair for found in objects(item, seen))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from (found for item in value for found in objects(item, seen))


def test_parts_of_the_state_have_fields_alone(many_kinds: Path) -> None:
    """What is no field would be forgotten with every start; caches of fields may be."""
    with ledger_of(many_kinds) as ledger:
        state = state_of(ledger, ledger.size)
    met = list(objects(state, set()))
    assert len({type(found) for found in met}) > 25
    for found in met:
        cls = type(found)
        caches = {
            name
            for name, value in vars(cls).items()
            if isinstance(value, functools.cached_property)
        }
        declared = {item.name for item in fields(found)}
        more = {"_changes", "_load"} if cls is State else set()
        assert held_by(found).keys() - caches - more <= declared, cls
        assert cls is State or cls in parts_of_state().objects


def test_the_newest_that_fits_is_taken_and_wrong_ones_are_thrown_away(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole, size = opened(home)
    assert size == 0
    keep(home, 40)
    keep(home, 100)
    assert opened(home) == (whole, 100)
    with ledger_of(home) as ledger:
        newest, before = snapshots_of(ledger).files()
    newest.write_bytes(newest.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING), ledger_of(home) as ledger:
        assert write_state(folded(ledger).state) == whole, "who only reads leaves it where it is"
    assert newest.exists()
    assert str(newest) in caplog.text
    assert opened(home) == (whole, 40)
    assert not newest.exists()
    before.write_bytes(before.read_bytes().replace(b'"size":40', b'"size":41'))
    assert opened(home) == (whole, 0)


def test_another_program_reads_all_entries_once(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(home, 100)
    monkeypatch.setattr(state_fold, "folding_program", lambda: Digest.of(b"its successor"))
    assert opened(home)[1] == 0
    keep(home, 100)
    assert opened(home)[1] == 100


def test_a_kept_state_says_when_the_last_entry_was_made(tmp_path: Path) -> None:
    engine = begun(tmp_path)
    now = engine.ledger.entry(engine.ledger.size - 1).time_ns
    assert engine.last_ns is None
    engine.close()
    engine = LedgerEngine.open(tmp_path, Rules())
    assert engine.last_ns == now
    body = ClockCorrected(by_ns=5)
    engine.ledger.append([engine_module._draft(engine_module.NewEntry(body, "operator"), now + 9)])
    engine.close()
    coordinator_key(tmp_path, FLEET)
    for size in (0, 7):
        if size:
            keep(tmp_path, size)
        engine = LedgerEngine.open(tmp_path, Rules())
        assert (engine.last_ns, engine.snapshot_size) == (now + 4, size)
        engine.close()


def test_after_a_long_replay_the_state_is_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "_LONG", 50)
    whole, _ = opened(home)
    assert opened(home) == (whole, SIZE)


def test_a_start_goes_on_where_no_snapshot_can_be_written(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(engine_module, "_LONG", 50)
    (home / "ledger" / "snapshots").write_bytes(b"in the way")
    assert opened(home)[1] == 0
    assert "cannot be written" in caplog.text


@pytest.mark.parametrize("power_cut", [False, True], ids=["killed", "power cut"])
def test_cut_at_any_point_of_a_snapshot_a_ledger_opens_with_the_same_state(
    tmp_path: Path, home: Path, power_cut: bool
) -> None:
    whole, _ = opened(home)
    keep(home, 20)
    keep(home, 40)
    sizes = set[int]()
    with ledger_of(home) as ledger:
        state = state_of(ledger, 100)
        snapshots = snapshots_of(ledger)

        def work(root: Path) -> None:
            snapshots.folder = root / "ledger" / "snapshots"
            snapshots.write(write_state(state), ledger, 100)

        def prepare(root: Path) -> None:
            shutil.copytree(home / "ledger" / "snapshots", root / "ledger" / "snapshots")

        for root in cuts(tmp_path / "cut", prepare, work, seeds=1 + power_cut, power_cut=power_cut):
            shutil.copy(home / "ledger" / "ledger.db", root / "ledger")
            shutil.copytree(home / "keys", root / "keys", dirs_exist_ok=True)
            found, size = opened(root)
            assert found == whole
            sizes.add(size)
    assert sizes == {40, 100}


def test_a_coordinator_that_serves_has_its_state_kept(tmp_path: Path) -> None:
    settings = CoordinatorSettings(fleet=FLEET, ledger=LedgerSection(snapshot_every=5))
    write_new(tmp_path, settings)
    coordinator = serve.assemble_when_free(tmp_path, load(tmp_path))
    inbox = OperatorInbox(tmp_path)
    for number in range(6):
        inbox.submit(AdmitDevice(device=DeviceId(f"device-{number}")))
    kept, deadline = tmp_path / "ledger" / "snapshots" / "6.state", time.monotonic() + 60
    while not kept.exists():
        coordinator.shell.step(0.02)
        assert time.monotonic() < deadline
    state = write_state(coordinator.local.engine.core.state)
    inbox.close()
    coordinator.close()
    assert opened(tmp_path) == (state, 6)


def test_a_large_state_is_read_at_once_and_never_collected(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = opened(home)
    keep(home, SIZE)
    monkeypatch.setattr(columns, "_MANY_BYTES", 0)
    before = gc.get_threshold()
    try:
        with ledger_of(home) as ledger:
            state, read = folded(ledger)
        assert gc.get_freeze_count() > 0
        assert gc.isenabled()
        assert gc.get_threshold() > before
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
    assert (write_state(state), read) == (whole, 0)


def test_a_process_that_fails_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keeper = SnapshotKeeper(tmp_path / "nothing.db", every=8, size=0)
    keeper.keep_if_due(7)
    assert keeper.process is None, "it is not time"
    keeper.keep_if_due(8)
    assert keeper.process is not None
    assert keeper.process.wait(60) != 0
    keeper.keep_if_due(9)
    assert "no ledger there" in caplog.text
    assert keeper.process is None
    (problem,) = keeper.problems()
    assert "no ledger there" in problem.text
    assert not problem.hinders


def test_no_process_begins_where_the_operator_wants_none(tmp_path: Path) -> None:
    keeper = SnapshotKeeper(tmp_path / "nothing.db", every=0, size=0)
    keeper.keep_if_due(10**9)
    assert keeper.process is None
    keeper.close()
