"""The file that says what the values of masks are called."""

from pathlib import Path

import pytest

from fleetledger.device_agent.errors import SourceError
from fleetledger.device_agent.samples.sources.masks import load_mask_classes


def load(folder: Path, text: str) -> dict[int, str]:
    path = folder / "classes.toml"
    path.write_text(text, encoding="utf-8")
    return dict(load_mask_classes(path).names)


def test_every_value_has_its_name_in_ascending_order(tmp_path: Path) -> None:
    found = load(tmp_path, '[classes]\n20 = "tv"\n3 = "traffic light"\n')
    assert list(found.items()) == [(3, "traffic light"), (20, "tv")]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('0 = "cat"', "0 = cat: give classes values from 1 to 254"),
        ('255 = "cat"', "255 = cat: give"),
        ('-1 = "cat"', "-1"),
        ('01 = "cat"', "01"),
        ('cat = "1"', "classes.cat"),
        ('1 = "cat"\n2 = "cat"', "cat is 1 and 2; give it one value"),
        ('1 = "background"', "1 = background: that is 0; leave it out"),
        ('1 = "a/b"', "'a/b'"),
        ("1 = 5", "classes.1: 5"),
        ('1 = "a"\n1 = "b"', "not TOML"),
        ("", "at least 1 item"),
    ],
)
def test_what_cannot_be_meant_is_named(lines: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        load(tmp_path, f"[classes]\n{lines}\n")
    assert "classes.toml: " in str(caught.value)
    assert told in str(caught.value)


def test_a_file_that_is_not_there_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r'no such file; .*1 = "cat"'):
        load_mask_classes(tmp_path / "classes.toml")
