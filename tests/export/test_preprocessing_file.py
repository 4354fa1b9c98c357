"""The description of a backbone's input is read from TOML or JSON."""

import json
from pathlib import Path

import pytest

from fleetledger.export.errors import PreprocessingFileError
from fleetledger.export.preprocessing_file import load_preprocessing, preprocessing_toml
from fleetledger.schemas.models import Preprocessing

TOML = """
mode = "RGB"
size = [112, 112]
interpolation = "bicubic"
resize = "shorter_side_crop"
shorter_side = 128
mean = [0.485, 0.456, 0.406]
deviation = [0.229, 0.224, 0.225]
input_name = "image"
"""


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    from_toml = load_preprocessing(write(tmp_path, "a.toml", TOML))
    assert from_toml.shorter_side == 128
    text = json.dumps(from_toml.model_dump(mode="json"))
    assert load_preprocessing(write(tmp_path, "a.json", text)) == from_toml
    for name, content in (("b.toml", TOML), ("b.json", text)):
        for encoding in ("utf-8-sig", "utf-16"):  # as editors and shells of Windows write
            file = write(tmp_path, name, content.replace("\n", "\r\n").encode(encoding))
            assert load_preprocessing(file) == from_toml


@pytest.mark.parametrize("input_name", ["image", 'a "quoted" \\ näme\n', "\x00\x1f\x7f😀"])
def test_what_is_written_as_toml_is_read_back_equal(tmp_path: Path, input_name: str) -> None:
    given = Preprocessing(
        mode="L", size=(3, 4), divide_by=1, mean=(-1e-7,), deviation=(1e300,), input_name=input_name
    )
    path = write(tmp_path, "a.toml", preprocessing_toml(given))
    assert load_preprocessing(path) == given


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.toml", TOML.replace("112, 112", "0, 112"), r"a\.toml: size\.0: 0: .*docs/models\.md"),
        ("a.toml", TOML.replace("bicubic", "cubic"), r"interpolation: 'cubic'"),
        ("a.toml", TOML.replace('input_name = "image"', ""), r"input_name: "),
        ("a.toml", TOML + "zoom = 3\n", r"zoom: 3"),
        ("a.toml", "mode = ", r"a\.toml: .*mend that line"),
        ("a.toml", b"\xff", r"a\.toml: .*mend that line"),
        ("a.json", "{", r"a\.json: .*mend that line"),
        ("a.json", "[1, 2]", r"a\.json: holds \[1, 2\], no fields .*docs/models\.md"),
        ("a.yaml", "", r"the ending '\.yaml' is not known; name it \.toml or \.json"),
        ("a.toml", b"#" * 70_000, r"70000 bytes exceed"),
    ],
)
def test_a_wrong_file_is_refused_with_file_field_and_way_out(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    with pytest.raises(PreprocessingFileError, match=message):
        load_preprocessing(write(tmp_path, name, content))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PreprocessingFileError, match=r"none\.toml: cannot be read"):
        load_preprocessing(tmp_path / "none.toml")
