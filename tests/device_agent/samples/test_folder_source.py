"""Scanning a folder of class-named folders, on a real disk."""

import os
import socket
import time
import unicodedata
from pathlib import Path

import pytest

from fleetledger.device_agent.errors import SourceError
from fleetledger.device_agent.samples.sources import folder as folder_module
from fleetledger.device_agent.samples.sources.cache import DigestCache
from fleetledger.device_agent.samples.sources.folder import FolderSource
from fleetledger.schemas.values import Digest
from tests.device_agent.making import write_files


class Watched:
    """A data folder, looked at as if an hour had gone by."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "data"
        self.folder.mkdir()
        self.cache_path = root / "digests.db"
        self.later = 3600.0

    def scan(self):
        cache = DigestCache(self.cache_path)
        source = FolderSource(self.folder, cache, clock=lambda: time.time() + self.later)
        try:
            return source.scan()
        finally:
            cache.close()


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_images_are_found_with_digest_and_class_sorted_by_path(watched: Watched) -> None:
    write_files(watched.folder / "dog", **{"b.png": b"2"})
    write_files(watched.folder / "cat", **{"a.JPG": b"1", "notes.txt": b"no image"})
    write_files(watched.folder / "cat" / "june", **{"c.png": b"3"})
    found = watched.scan()
    assert [(image.path, image.class_name) for image in found.images] == [
        ("cat/a.JPG", "cat"),
        ("cat/june/c.png", "cat"),
        ("dog/b.png", "dog"),
    ]
    assert [image.digest for image in found.images] == [Digest.of(b) for b in (b"1", b"3", b"2")]
    assert found.problems == ()


def test_a_rescan_reads_only_what_is_new_even_after_a_restart(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(watched.folder / "cat", **{"a.png": b"1", "b.png": b"2"})
    first = watched.scan()
    read: list[str] = []
    original = folder_module.file_digest

    def counting(path: Path) -> Digest:
        read.append(path.name)
        return original(path)

    monkeypatch.setattr(folder_module, "file_digest", counting)
    assert watched.scan() == first
    assert read == []
    write_files(watched.folder / "cat", **{"b.png": b"changed", "c.png": b"3"})
    assert len(watched.scan().images) == 3
    assert sorted(read) == ["b.png", "c.png"]


def test_a_file_with_the_same_size_and_another_time_is_read_again(watched: Watched) -> None:
    write_files(watched.folder / "cat", **{"a.png": b"1"})
    watched.scan()
    (watched.folder / "cat" / "a.png").write_bytes(b"2")
    os.utime(watched.folder / "cat" / "a.png", (1, 1))
    assert watched.scan().images[0].digest == Digest.of(b"2")


def test_a_file_that_is_being_written_waits_for_a_later_scan(watched: Watched) -> None:
    write_files(watched.folder / "cat", **{"old.png": b"1", "new.png": b"2"})
    os.utime(watched.folder / "cat" / "old.png", (1000, 1000))
    watched.later = 0.0
    found = watched.scan()
    assert [image.path for image in found.images] == ["cat/old.png"]
    assert found.unsettled == 1
    assert found.problems == ()
    watched.later = 3600.0
    assert len(watched.scan().images) == 2


def test_a_class_folder_without_images_is_a_problem(watched: Watched) -> None:
    write_files(watched.folder / "cat", **{"notes.txt": b"no image"})
    (watched.folder / "dog").mkdir()
    texts = [told.text for told in watched.scan().problems]
    assert len(texts) == 2
    assert texts[0].startswith("cat: this class folder has no files to learn from")
    assert ".png" in texts[0]
    assert texts[1].startswith("dog: ")


def test_a_folder_name_that_is_no_class_name_is_a_problem(watched: Watched) -> None:
    write_files(watched.folder / "cat ", **{"a.png": b"1"})
    found = watched.scan()
    assert found.images == ()
    (told,) = found.problems
    assert told.about == "class folder"
    assert "'cat '" in told.text
    assert "rename the folder" in told.text


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_a_problem_for_users(watched: Watched) -> None:
    write_files(watched.folder / "cat", **{"a.png": b"1"})
    (watched.folder / "cat" / "a.png").chmod(0)
    (told,) = watched.scan().problems
    assert "Permission denied" in told.text


def test_an_unreadable_file_is_a_problem_and_hides_no_other(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(watched.folder / "cat", **{"a.png": b"1", "b.png": b"2"})
    original = folder_module.file_digest

    def failing(path: Path) -> Digest:
        if path.name == "a.png":
            raise PermissionError(13, "Permission denied")
        return original(path)

    monkeypatch.setattr(folder_module, "file_digest", failing)
    found = watched.scan()
    assert [image.path for image in found.images] == ["cat/b.png"]
    (told,) = found.problems
    assert told.text.startswith("cat/a.png: cannot be read: Permission denied")


def test_hidden_files_and_folders_are_left_alone(watched: Watched) -> None:
    write_files(watched.folder / ".trash", **{"a.png": b"1"})
    write_files(watched.folder / "cat", **{".b.png": b"2", "c.png": b"3"})
    found = watched.scan()
    assert [image.path for image in found.images] == ["cat/c.png"]
    assert found.problems == ()


def test_two_spellings_of_one_name_are_one_class(watched: Watched) -> None:
    composed, apart = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    write_files(watched.folder / composed, **{"a.png": b"1"})
    write_files(watched.folder / apart, **{"b.png": b"2"})
    assert {image.class_name for image in watched.scan().images} == {composed}


def test_a_name_that_is_not_utf8_is_a_problem(watched: Watched) -> None:
    write_files(watched.folder / "cat", **{"c.png": b"3"})
    raw = os.fsencode(watched.folder / "cat") + b"/\xff.png"
    with open(raw, "wb") as file:  # noqa: PTH123 - the name is bytes on purpose
        file.write(b"1")
    found = watched.scan()
    assert [image.path for image in found.images] == ["cat/c.png"]
    (told,) = found.problems
    assert "rename it to valid UTF-8" in told.text
    told.text.encode("utf-8")


def test_a_folder_that_is_not_there_is_an_error_and_not_an_empty_folder(watched: Watched) -> None:
    watched.folder.rmdir()
    with pytest.raises(SourceError, match=r"data\.folder: .*mount it"):
        watched.scan()


def test_a_cache_that_is_no_database_is_named(watched: Watched) -> None:
    watched.cache_path.write_bytes(b"not a database, certainly " * 100)
    with pytest.raises(SourceError, match="it is only a cache"):
        watched.scan()


@pytest.fixture
def odd(watched: Watched) -> Watched:
    write_files(watched.folder / "cat", **{"good.png": b"1"})
    return watched


def problems_of(watched: Watched) -> list[str]:
    found = watched.scan()
    assert [image.path for image in found.images] == ["cat/good.png"]
    return [problem.text for problem in found.problems]


def test_a_named_pipe_is_told_and_never_opened(odd: Watched) -> None:
    os.mkfifo(odd.folder / "cat" / "live.png")
    (text,) = problems_of(odd)
    assert text.startswith("cat/live.png: cannot be read: a named pipe, and only regular files")


def test_a_socket_and_a_link_to_a_device_are_told(odd: Watched) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(odd.folder / "cat" / "app.png"))
        (odd.folder / "cat" / "zero.png").symlink_to("/dev/zero")
        texts = problems_of(odd)
    assert ["a socket" in texts[0], "a device" in texts[1]] == [True, True]


def test_links_to_nothing_and_to_themselves_are_told(odd: Watched) -> None:
    (odd.folder / "cat" / "gone.png").symlink_to("nowhere.png")
    (odd.folder / "cat" / "loop.png").symlink_to("loop.png")
    texts = problems_of(odd)
    assert "cat/gone.png: cannot be read: a link to nothing" in texts[0]
    assert texts[1].startswith("cat/loop.png: cannot be read: Too many levels of symbolic links")


def test_a_class_folder_that_links_to_itself_hides_no_other(odd: Watched) -> None:
    (odd.folder / "loop").symlink_to("loop")
    assert problems_of(odd) == []


def test_a_folder_with_the_name_of_a_picture_is_looked_into(odd: Watched) -> None:
    write_files(odd.folder / "cat" / "a.png", **{"inside.txt": b"no image"})
    assert problems_of(odd) == []


def test_a_huge_file_is_told_by_its_size_and_never_read(
    odd: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (odd.folder / "cat" / "film.png").open("wb") as file:
        file.truncate(1 << 40)  # takes no room on the disk
    read: list[Path] = []
    original = folder_module.file_digest
    monkeypatch.setattr(
        folder_module, "file_digest", lambda path: read.append(path) or original(path)
    )
    (text,) = problems_of(odd)
    assert "bytes exceed" in text
    assert [path.name for path in read] == ["good.png"]


def test_folders_of_systems_are_no_classes_and_hide_none(watched: Watched) -> None:
    write_files(watched.folder / "cat", **{"a.jfif": b"1", "b.JPE": b"2"})
    for name in ("@eaDir", "$RECYCLE.BIN", "#recycle", "System Volume Information", ".Trash-1000"):
        write_files(watched.folder / name, **{"x.png": b"x"})
        write_files(watched.folder / "cat" / name, **{"y.png": b"y"})
    for name in ("lost+found", "__MACOSX", "$Recycle.Bin"):
        (watched.folder / name).mkdir()
    found = watched.scan()
    assert [image.path for image in found.images] == ["cat/a.jfif", "cat/b.JPE"]
    assert found.problems == ()


def test_pictures_that_cannot_be_read_are_told_by_their_kind(watched: Watched) -> None:
    write_files(watched.folder / "cat", **{"a.png": b"1", "b.HEIC": b"2", "d.avif": b"4"})
    write_files(watched.folder / "cat" / "june", **{"c.heic": b"3", "Thumbs.db": b"5"})
    found = watched.scan()
    assert [image.path for image in found.images] == ["cat/a.png"]
    assert [item.text for item in found.problems] == [
        "cat: 1 file of the kind .avif ('cat/d.avif') cannot be read; convert it to JPEG or PNG, "
        "or remove it",
        "cat: 2 files of the kind .heic ('cat/b.HEIC') cannot be read; convert them to JPEG or "
        "PNG, or remove them",
    ]
