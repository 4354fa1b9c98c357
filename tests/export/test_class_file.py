"""Names of a model's classes, read from a file."""

from pathlib import Path

import pytest

from export.class_file import load_class_names
from export.errors import ClassFileError


def test_names_that_look_alike_are_refused_and_signs_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "names.txt"
    file.write_text("O\n0\nl\n1\n", encoding="utf-8")
    assert load_class_names(file) == ("O", "0", "l", "1")
    file.write_text("tree\ncop\n\u0441\u043e\u0440\n", encoding="utf-8")
    with pytest.raises(ClassFileError, match=r"name 3, .* looks like 'cop'"):
        load_class_names(file)
