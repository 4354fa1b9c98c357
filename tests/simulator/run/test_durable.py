"""Files that survive a crash."""

from pathlib import Path

import pytest

from fleetledger.simulator.run.durable import append_line, replace_file, whole_lines, written_beside


def test_lines_are_kept_in_order(tmp_path: Path):
    path = tmp_path / "lines"
    assert whole_lines(path) == []
    append_line(path, "one")
    append_line(path, "zwölf")
    assert whole_lines(path) == ["one", "zwölf"]


def test_a_torn_line_is_cut_off_so_that_the_next_one_is_whole(tmp_path: Path):
    path = tmp_path / "lines"
    append_line(path, "one")
    path.write_bytes(path.read_bytes() + "zwö".encode()[:3])
    assert whole_lines(path) == ["one"]
    append_line(path, "two")
    assert whole_lines(path) == ["one", "two"]


def test_a_file_is_replaced_as_a_whole(tmp_path: Path):
    path = tmp_path / "file"
    replace_file(path, b"old")
    with pytest.raises(RuntimeError), written_beside(path) as beside:  # noqa: PT012
        beside.write_bytes(b"ne")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
