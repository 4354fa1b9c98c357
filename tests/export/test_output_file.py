"""Places for files that are made: what cannot become one is said before the work."""

from pathlib import Path

import pytest

from fleetledger.export.errors import OutputFileError
from fleetledger.export.output_file import check_place, write_described


def test_a_place_is_checked_before_the_work(tmp_path: Path) -> None:
    check_place(tmp_path / "a.onnx")
    with pytest.raises(OutputFileError, match=r"the ending '\.toml' is not that of an ONNX"):
        check_place(tmp_path / "a.toml")
    with pytest.raises(OutputFileError, match=r"there is no folder .*lacking; make it first"):
        check_place(tmp_path / "lacking" / "a.onnx")


@pytest.mark.parametrize("place", ["folder.onnx", "file/a.onnx", "missing/a.onnx"])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder.onnx").mkdir()
    (tmp_path / "file").touch()
    path = tmp_path / place
    with pytest.raises(OutputFileError, match=rf"^{path}: cannot be written: [^:]*; choose"):
        write_described(path, b"model", tmp_path / "a.toml", "text")
    with pytest.raises(OutputFileError, match=rf"^{path}: cannot be written"):
        write_described(tmp_path / "a.onnx", b"model", path, "text")
