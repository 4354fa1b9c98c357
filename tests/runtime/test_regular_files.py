"""Reading a name that may be of anything."""

import os
from pathlib import Path

import pytest

from fleetledger.runtime import regular_files
from fleetledger.runtime.regular_files import (
    NotRegularError,
    open_regular,
    read_regular,
    regular_status,
)


def test_a_regular_file_and_a_link_to_one_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "b").symlink_to("a")
    assert read_regular(tmp_path / "a", 100) == b"12345"
    assert read_regular(tmp_path / "b", 3) == b"123"


def test_a_name_of_nothing_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        regular_status(tmp_path / "a")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (os.mkfifo, "a named pipe"),
        (Path.mkdir, "a folder"),
        (lambda path: path.symlink_to("/dev/null"), "a device"),
        (lambda path: path.symlink_to("nowhere"), "a link to nothing"),
    ],
)
def test_anything_else_is_refused_by_its_kind(tmp_path: Path, make, told: str) -> None:
    make(tmp_path / "odd")
    with pytest.raises(NotRegularError, match=told):
        open_regular(tmp_path / "odd")


def test_a_pipe_that_takes_a_file_s_place_in_between_holds_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "odd")
    monkeypatch.setattr(regular_files, "regular_status", lambda _: None)
    with pytest.raises(NotRegularError, match="a named pipe"):
        open_regular(tmp_path / "odd")
