"""Names of a model's classes, read from a file."""

from pathlib import Path

import pytest

from fleetledger.export.class_file import load_class_names
from fleetledger.export.errors import ClassFileError


def test_names_that_look_alike_are_refused_and_signs_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "names.txt"
    file.write_text("O\n0\nl\n1\n", encoding="utf-8")
    assert load_class_names(file) == ("O", "0", "l", "1")
    file.write_text("tree\ncop\n\u0441\u043e\u0440\n", encoding="utf-8")
    with pytest.raises(ClassFileError, match=r"name 3, .* looks like 'cop'"):
        load_class_names(file)


MARK = "\ufeff"


@pytest.mark.parametrize(
    "data",
    [
        b"cat\ndog\n",
        b"cat\ndog\n\n\n",
        b"cat\r\ndog\r\n\r\n",
        b"cat\rdog\r",
        f"{MARK}cat\ndog".encode(),
        f"{MARK}cat\r\ndog\r\n".encode("utf-16-le"),
        f"{MARK}cat\ndog\n".encode("utf-16-be"),
    ],
)
def test_files_of_any_editor_have_the_same_names(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "names.txt"
    file.write_bytes(data)
    assert load_class_names(file) == ("cat", "dog")


def test_toml_has_the_names_as_a_field(tmp_path: Path) -> None:
    file = tmp_path / "names.toml"
    file.write_text('class_names = ["cat", "dog"]\n', encoding="utf-8")
    assert load_class_names(file) == ("cat", "dog")


def test_a_json_list_may_have_a_mark(tmp_path: Path) -> None:
    file = tmp_path / "names.json"
    file.write_bytes(f'{MARK}["cat", "dog"]'.encode())
    assert load_class_names(file) == ("cat", "dog")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "[1, 2]", r'a\.json: name 1 is 1; .* such as \["cat", "dog"\]'),
        ("a.json", '["cat", ["dog"]]', r'name 2 is \["dog"\]; the list has texts alone'),
        ("a.json", '["cat", null]', r"name 2 is null; the list has texts alone"),
        ("a.json", '{"0": "cat"}', r'holds \{"0": "cat"\}, no list; give one of names'),
        ("a.txt", "cat\n\ndog\n", r"a\.txt: line 2 is ''; write the name .* or remove it"),
        ("a.txt", "cat\n \ndog\n", r"a\.txt: line 2 is ' '; write the name"),
        ("a.txt", "cat\u2028dog\nbird\n", r"name 1.*cat\\u2028dog"),
        ("a.txt", "cat\x85dog\nbird\n", r"name 1.*cat\\x85dog"),
        ("a.txt", "\n\n", r"0 names; give 1 to"),
        ("a.toml", 'mode = "RGB"', r"no class_names and describes a preprocessing; that is --prep"),
        ("a.toml", 'names = ["cat"]', r"has no class_names; give a text file with one name a line"),
        ("a.toml", "cat\ndog", r"a\.toml: is no TOML: .*; give a text file"),
        ("a.toml", "class_names = 3", r"holds 3, no list"),
        ("a.yaml", "names: [cat]", r"a\.yaml: is YAML; give a text file with one name a line"),
    ],
)
def test_what_stands_there_is_shown(name: str, content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(content.encode())
    with pytest.raises(ClassFileError, match=message):
        load_class_names(file)
