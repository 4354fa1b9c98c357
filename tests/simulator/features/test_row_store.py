"""Rows on the disk: found by digest, appended, safe when a process is killed."""

from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest

from fleetledger.schemas.values import Digest
from fleetledger.simulator.errors import BackboneError
from fleetledger.simulator.features.row_store import RowStore

ORIGIN = {"model": "a", "runtime": "1.0"}
WIDTH = 3


def never() -> None:
    raise AssertionError("nobody else appends")


def digest(number: int) -> Digest:
    return Digest.of(str(number).encode())


def rows(*numbers: int) -> np.ndarray:
    values = [[number, number + 0.5, -number] for number in numbers]
    return np.array(values, np.float32).reshape(-1, WIDTH)


def filled(cache: Path, *numbers: int) -> RowStore:
    store = RowStore.create(cache, ORIGIN, WIDTH)
    with store.locked(never):
        store.append([digest(number) for number in numbers], rows(*numbers))
    return store


def test_what_was_appended_is_found_again(tmp_path: Path):
    filled(tmp_path, 5, 6)
    filled(tmp_path, 7)
    store = RowStore.open(tmp_path, ORIGIN)
    assert store is not None
    places = store.find([digest(7), digest(4), digest(5)])
    assert places[1] == -1
    assert np.array_equal(store.rows(places[[0, 2]]), rows(7, 5))


def test_rows_of_another_origin_are_not_found(tmp_path: Path):
    filled(tmp_path, 5)
    assert RowStore.open(tmp_path, {**ORIGIN, "runtime": "2.0"}) is None


def test_a_row_without_its_digest_is_written_over(tmp_path: Path):
    filled(tmp_path, 1)
    (folder,) = tmp_path.iterdir()
    with (folder / "rows.f32").open("ab") as file:
        file.write(b"torn by a kill")
    with (folder / "digests.bin").open("ab") as file:
        file.write(b"half a digest")
    filled(tmp_path, 2)
    store = RowStore.open(tmp_path, ORIGIN)
    assert store is not None
    places = store.find([digest(1), digest(2)])
    assert places.tolist() == [0, 1]
    assert np.array_equal(store.rows(places), rows(1, 2))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.f32", b"short"),
        ("about.json", b"{}"),
        ("about.json", b"torn"),
        ("about.json", b'{"origin":{"model":"b","runtime":"1.0"},"width":3}'),
    ],
)
def test_a_damaged_folder_says_that_it_may_be_deleted(name: str, content: bytes, tmp_path: Path):
    filled(tmp_path, 1)
    (folder,) = tmp_path.iterdir()
    (folder / name).write_bytes(content)
    with pytest.raises(BackboneError, match="delete this folder, it is only a cache"):
        RowStore.open(tmp_path, ORIGIN)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BackboneError, match="cannot be written"):
        RowStore.create(tmp_path / "file", ORIGIN, WIDTH)


def test_a_disk_that_refuses_is_told_and_costs_only_the_last_rows(tmp_path: Path):
    store = filled(tmp_path, 1)
    (folder,) = tmp_path.iterdir()
    kept = (folder / "digests.bin").rename(folder / "kept")
    (folder / "digests.bin").mkdir()
    with pytest.raises(BackboneError, match="free some space"):
        store.append([digest(2)], rows(2))
    (folder / "digests.bin").rmdir()
    kept.rename(folder / "digests.bin")
    filled(tmp_path, 3)
    again = RowStore.open(tmp_path, ORIGIN)
    assert again is not None
    assert again.find([digest(1), digest(2), digest(3)]).tolist() == [0, -1, 1]


def test_the_time_of_all_rows_is_averaged(tmp_path: Path):
    store = filled(tmp_path, 1, 2, 3)
    assert store.seconds_per_row == 0
    with store.locked(never):
        store.note_time(2, 3.0)
        store.note_time(1, 0.0)
    again = RowStore.open(tmp_path, ORIGIN)
    assert again is not None
    assert again.seconds_per_row == pytest.approx(1.0)


def test_who_waits_for_another_process_is_told_and_sees_its_rows(tmp_path: Path):
    first, second = filled(tmp_path, 1), filled(tmp_path)
    told = Event()

    def append() -> None:
        with second.locked(told.set):
            second.append([digest(3)], rows(3))

    waiting = Thread(target=append)
    with first.locked(never):
        waiting.start()
        assert told.wait(timeout=300)
        first.append([digest(2)], rows(2))
    waiting.join()
    places = second.find([digest(1), digest(2), digest(3)])
    assert places.tolist() == [0, 1, 2]
    assert np.array_equal(second.rows(places), rows(1, 2, 3))
