"""Each promise is checked: a run that was tampered with breaks the one that it should."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.ledger.blobs import BlobStore
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.receipts import Accepted, Receipt
from fleetledger.schemas.values import DeviceId, Digest
from tests.chaos.checks import (
    AT_ANY_TIME,
    PROMISES,
    Broken,
    SeenMeanwhile,
    Undisturbed,
    check,
)
from tests.chaos.outcome import Places, read_outcome
from tests.chaos.trials import Trials

OFFERED = 2
"""The fleet whose payloads are large enough for the blob store."""
DEVICE = DeviceId("device-1")

FIRST_PART = """WHERE field = 'parts' AND key = '{"part":0,"stage":1}'"""
FIRST_IMAGE = " WHERE id = (SELECT min(id) FROM record WHERE field = 'counted')"
OTHER_PAYLOAD = f"json_set(value, '$.payload', '{'1' * 64}')"


class Left:
    """A copy of what the undisturbed run of a fleet left."""

    def __init__(self, trials: Trials, folder: Path) -> None:
        material, self.undisturbed = trials.prepared(OFFERED)
        shutil.copytree(trials.undisturbed_folder(OFFERED), folder / "run", symlinks=True)
        devices = material.plan.devices
        self.places = Places(
            folder / "run" / "coordinator",
            {name: folder / "run" / "agents" / name / "state" for name in devices},
        )
        self.live: State = read_outcome(self.places).state

    def broken(self, undisturbed: Undisturbed | None = None, *receipts: Receipt) -> list[Broken]:
        seen = SeenMeanwhile(self.live, [(DEVICE, receipt) for receipt in receipts])
        return check(self.places, undisturbed or self.undisturbed, seen)

    def promises(self) -> set[str]:
        return {item.promise for item in self.broken()}

    def tell_ledger(self, sql: str) -> None:
        """Edit the ledger's file as somebody who has it can."""
        with closing(sqlite3.connect(ledger_path(self.places.coordinator))) as database:
            for (name,) in database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall():
                database.execute(f"DROP TRIGGER {name}")
            database.execute(sql)
            database.commit()

    def tell_device(self, sql: str) -> None:
        with closing(sqlite3.connect(self.places.states[DEVICE] / "agent.db")) as database:
            database.execute(sql)
            database.commit()


@pytest.fixture
def left(trials: Trials, tmp_path: Path) -> Left:
    return Left(trials, tmp_path)


def test_a_run_that_nobody_touched_keeps_every_promise(left: Left) -> None:
    assert left.broken() == []


@pytest.mark.parametrize(
    ("promise", "sql"),
    [
        ("the ledger verifies", "UPDATE checkpoint SET root = zeroblob(32)"),
        ("the ledger verifies", "DELETE FROM entry WHERE idx = (SELECT max(idx) FROM entry)"),
    ],
)
def test_a_ledger_that_was_edited_is_found(left: Left, promise: str, sql: str) -> None:
    left.tell_ledger(sql)
    assert promise in left.promises()


def test_a_blob_that_is_missing_or_torn_is_found(left: Left) -> None:
    store = BlobStore(blob_folder(left.places.coordinator))
    files = [path for path in blob_folder(left.places.coordinator).rglob("*") if path.is_file()]
    path = max(files, key=lambda file: file.stat().st_size)  # a contribution's, which entries name
    path.write_bytes(path.read_bytes()[:-1])
    assert "the ledger verifies" in left.promises()
    store.delete(Digest(path.name))
    assert "the ledger verifies" in left.promises()


def test_a_program_that_knows_what_the_ledger_does_not_is_found(left: Left) -> None:
    left.live.models.held_index = 3
    assert left.promises() == {"a replay gives the state"}


@pytest.mark.parametrize(
    ("promise", "sql"),
    [
        ("nothing accepted is lost", f"UPDATE record SET value = {OTHER_PAYLOAD} {FIRST_PART}"),
        (
            "nothing accepted is lost",
            "INSERT INTO record (field, key, value)"
            ' SELECT field, \'{"part":99,"stage":1}\', value FROM record ' + FIRST_PART,
        ),
        (
            "nothing accepted is lost",
            f"UPDATE record SET value = replace(value, 'accepted', 'withdrawn') {FIRST_PART}",
        ),
        ("nothing counts twice", f"DELETE FROM record {FIRST_PART}"),
        (
            "nothing counts twice",
            f"UPDATE record SET value = replace(value, 'accepted', 'waiting') {FIRST_PART}",
        ),
        ("every image counts once", f"DELETE FROM record {FIRST_IMAGE}"),
        (
            "every image counts once",
            "UPDATE record SET value = json_set(value, '$.class_name', 'elsewhere')" + FIRST_IMAGE,
        ),
    ],
)
def test_books_of_a_device_that_differ_from_the_ledger_are_found(
    left: Left, promise: str, sql: str
) -> None:
    left.tell_device(sql)
    assert promise in left.promises()


def test_a_refused_letter_and_one_without_a_receipt_are_found(left: Left) -> None:
    left.tell_device("INSERT INTO record (field, key, value) VALUES ('dead_letters', '', '1')")
    assert "nothing accepted is lost" in left.promises()


@pytest.mark.parametrize("field", ["aggregate", "head"])
def test_another_model_is_found(left: Left, field: str) -> None:
    other = replace(left.undisturbed, **{field: Digest.of(b"another")})
    assert {item.promise for item in left.broken(other)} == {
        "the model is that of the undisturbed run"
    }


def test_other_stages_are_found(left: Left) -> None:
    other = replace(left.undisturbed, stages={**left.undisturbed.stages, 3: ()})
    assert {item.promise for item in left.broken(other)} == {"a command is carried out once"}


def test_receipts_are_held_against_the_ledger(left: Left) -> None:
    index, item = next(
        (index, item)
        for index, item in left.live.contributions.counted.items()
        if item.device == DEVICE
    )

    def receipt(key: PartKey, index: int, revision: int = 0) -> Receipt:
        return Receipt(
            about="contribution",
            key=key,
            revision=revision,
            answer=Accepted(ledger_index=index),
        )

    assert left.broken(None, receipt(item.key, index)) == []
    other = PartKey(stage=9, part=9)
    for wrong in (
        receipt(item.key, index + 1),
        receipt(item.key, 10_000),
        receipt(other, index),
        receipt(item.key, index, revision=1),
    ):
        assert {item.promise for item in left.broken(None, wrong)} == {"a receipt is true"}


def test_a_device_without_the_last_model_is_found(left: Left) -> None:
    ModelSlots(left.places.states[DEVICE] / "slots").go_back()
    assert left.promises() == {"every device runs the last model"}


def test_a_torn_file_of_a_device_s_model_is_found(left: Left) -> None:
    slot = ModelSlots(left.places.states[DEVICE] / "slots").active()
    assert slot is not None
    path = left.places.states[DEVICE] / "blobs" / slot.files[0]
    path.write_bytes(path.read_bytes()[:-1])
    assert left.promises() == {"every device runs the last model"}


def test_of_a_run_without_an_end_only_what_always_holds_is_asked(left: Left) -> None:
    left.tell_device("DELETE FROM record WHERE field = 'parts'")
    seen = SeenMeanwhile(None, [])
    assert check(left.places, left.undisturbed, seen) == []
    left.tell_ledger("DELETE FROM entry WHERE idx = (SELECT max(idx) FROM entry)")
    found = {item.promise for item in check(left.places, left.undisturbed, seen)}
    assert found <= set(AT_ANY_TIME)
    assert "the ledger verifies" in found


def test_every_promise_says_what_it_is(left: Left) -> None:
    assert set(AT_ANY_TIME) < set(PROMISES)
    assert str(Broken("nothing is lost", "part 3 is")) == "nothing is lost: part 3 is"
