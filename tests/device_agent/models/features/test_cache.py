"""The feature cache gives back what it was given, or nothing: after restarts, limits and damage."""

import random
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from fleetledger.device_agent.models.features.cache import (
    FeatureCache,
    cache_bytes,
    delete_cache,
    source_digest,
)
from fleetledger.device_agent.models.features.table import FeatureTable
from fleetledger.schemas.values import Digest
from tests.device_agent.making import GREY_8, digest

SOURCE = digest("a backbone and its preprocessing")
WIDTH = 1280
ROW_BYTES = 4 * WIDTH


def rows_of(*names: str) -> dict[Digest, np.ndarray]:
    """A row for each name, the same whenever it is asked for."""
    return {
        digest(name): np.random.default_rng(int(digest(name)[:8], 16))
        .standard_normal(WIDTH)
        .astype(np.float32)
        for name in names
    }


def same(found: dict[Digest, np.ndarray], expected: dict[Digest, np.ndarray]) -> bool:
    return found.keys() == expected.keys() and all(
        row.dtype == np.float32 and np.array_equal(row, expected[name])
        for name, row in found.items()
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "features.db"


@pytest.fixture
def cache(path: Path) -> FeatureCache:
    return FeatureCache(path, megabytes=10)


def change(path: Path, statement: str, *values: object) -> None:
    """Change the file behind the cache's back."""
    with sqlite3.connect(path) as connection:
        assert connection.execute(statement, values).rowcount == 1
    connection.close()


def test_rows_come_back_bit_by_bit_also_after_a_restart(cache: FeatureCache, path: Path) -> None:
    rows = rows_of("one", "two", "three")
    assert cache.read(SOURCE, list(rows)) == {}
    cache.write(SOURCE, rows)
    assert same(cache.read(SOURCE, list(rows)), rows)
    cache.close()
    again = FeatureCache(path, megabytes=10)
    assert same(again.read(SOURCE, [*rows, digest("four")]), rows)


def test_a_row_belongs_to_its_backbone_and_its_preprocessing(cache: FeatureCache) -> None:
    larger = GREY_8.model_copy(update={"size": (16, 16)})
    sources = [
        source_digest(digest("backbone"), GREY_8),
        source_digest(digest("backbone"), larger),
        source_digest(digest("another backbone"), GREY_8),
    ]
    assert len(set(sources)) == 3
    assert sources[0] == source_digest(digest("backbone"), GREY_8.model_copy())
    (image,) = rows_of("one")
    for number, source in enumerate(sources):
        cache.write(source, {image: np.full(4, number, np.float32)})
    for number, source in enumerate(sources):
        assert cache.read(source, [image])[image].tolist() == [number] * 4


def test_a_row_that_is_written_again_replaces_the_first(cache: FeatureCache) -> None:
    image = digest("one")
    for value in (1, 2):
        cache.write(SOURCE, {image: np.full(4, value, np.float32)})
    assert cache.read(SOURCE, [image])[image].tolist() == [2] * 4


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE floats SET row = zeroblob(5120) WHERE id = 1",
        "UPDATE floats SET row = substr(row, 1, 5116) WHERE id = 1",
        "UPDATE floats SET row = x'' WHERE id = 1",
        "UPDATE floats SET row = (SELECT row FROM floats WHERE id = 2) WHERE id = 1",
        "UPDATE entry SET digest = x'00' WHERE id = 1",
        "DELETE FROM floats WHERE id = 1",
    ],
)
def test_a_row_that_is_torn_or_of_another_image_counts_as_missing(
    cache: FeatureCache, path: Path, damage: str
) -> None:
    rows = rows_of("one", "two", "three")
    cache.write(SOURCE, rows)
    cache.close()
    change(path, damage)
    left = {name: row for name, row in rows.items() if name != digest("one")}
    assert same(cache.read(SOURCE, list(rows)), left)
    cache.write(SOURCE, rows_of("one"))
    assert same(cache.read(SOURCE, list(rows)), rows)


@pytest.mark.parametrize("content", [b"", b"no database at all " * 1000])
def test_a_file_that_is_no_database_is_made_anew(
    cache: FeatureCache, path: Path, content: bytes
) -> None:
    path.write_bytes(content)
    rows = rows_of("one")
    assert cache.read(SOURCE, list(rows)) == {}
    cache.write(SOURCE, rows)
    assert same(cache.read(SOURCE, list(rows)), rows)
    assert cache.trouble == ""


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_damaged_no_wrong_row_comes_back(
    cache: FeatureCache, path: Path, seed: int
) -> None:
    rows = rows_of(*(f"image {number}" for number in range(100)))
    cache.write(SOURCE, rows)
    cache.close()
    chance = random.Random(seed)
    content = bytearray(path.read_bytes())
    for _ in range(40):
        at = chance.randrange(len(content))
        content[at : at + 64] = chance.randbytes(min(64, len(content) - at))
    if seed % 2:
        del content[chance.randrange(len(content)) :]
    path.write_bytes(content)
    found = cache.read(SOURCE, list(rows))
    assert all(np.array_equal(row, rows[name]) for name, row in found.items())
    assert len(found) < len(rows)
    cache.write(SOURCE, rows)
    assert same(cache.read(SOURCE, list(rows)), rows)


def test_the_rows_used_longest_ago_go_first_and_the_file_keeps_to_its_limit(path: Path) -> None:
    cache = FeatureCache(path, megabytes=1)
    used = rows_of(*(f"used {number}" for number in range(20)))
    cache.write(SOURCE, used)
    for start in range(0, 400, 8):
        new = rows_of(*(f"new {number}" for number in range(start, start + 8)))
        cache.write(SOURCE, new)
        assert len(cache.read(SOURCE, list(used))) == 20
    last = rows_of(*(f"new {number}" for number in range(300, 400)))
    first = rows_of(*(f"new {number}" for number in range(100)))
    assert same(cache.read(SOURCE, list(last)), last)
    assert cache.read(SOURCE, list(first)) == {}
    cache.close()
    assert 20 * ROW_BYTES < cache_bytes(path) < 1_100_000


def test_a_smaller_limit_makes_the_file_smaller(path: Path) -> None:
    cache = FeatureCache(path, megabytes=10)
    rows = rows_of(*(f"image {number}" for number in range(600)))
    cache.write(SOURCE, rows)
    cache.close()
    assert cache_bytes(path) > 600 * ROW_BYTES
    smaller = FeatureCache(path, megabytes=1)
    left = smaller.read(SOURCE, list(rows))
    smaller.close()
    assert cache_bytes(path) < 1_100_000
    assert 100 < len(left) < 600


def test_a_disk_that_is_full_costs_time_and_nothing_else(cache: FeatureCache) -> None:
    known = rows_of("one", "two")
    cache.write(SOURCE, known)
    table = cache._table()
    pages = table._pragma("page_count")
    table._db.execute(f"PRAGMA max_page_count = {pages}").fetchall()
    cache.write(SOURCE, rows_of(*(f"more {number}" for number in range(10))))
    assert "database or disk is full; training goes on without the cache" in cache.trouble
    assert same(cache.read(SOURCE, list(known)), known)
    assert cache.trouble == ""


def test_a_place_that_cannot_be_written_costs_time_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    cache = FeatureCache(tmp_path / "file" / "features.db", megabytes=1)
    cache.write(SOURCE, rows_of("one"))
    assert "Not a directory" in cache.trouble
    assert cache.read(SOURCE, [digest("one")]) == {}


def test_a_file_of_another_layout_is_made_anew(cache: FeatureCache, path: Path) -> None:
    rows = rows_of("one")
    cache.write(SOURCE, rows)
    cache.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert cache.read(SOURCE, list(rows)) == {}
    cache.write(SOURCE, rows)
    assert same(cache.read(SOURCE, list(rows)), rows)


def test_the_agents_user_alone_can_read_it_and_it_can_be_deleted(path: Path) -> None:
    table = FeatureTable(path, 1 << 20)
    table.write(SOURCE, rows_of("one"))
    assert len(table) == 1
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}
    table.close()
    assert cache_bytes(path) > ROW_BYTES
    delete_cache(path)
    assert (cache_bytes(path), list(path.parent.iterdir())) == (0, [])
