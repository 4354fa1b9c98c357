"""Text files of any editor are read alike, and lines end where people end them."""

import pytest

from fleetledger.runtime.user_text import decode_text, lines_of


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_marks_and_ends_of_lines_do_not_matter(encoding: str, end: str) -> None:
    text = decode_text(f"ä{end}b{end}".encode(encoding))
    assert text == "ä\nb\n"
    assert lines_of(text) == ["ä", "b"]


def test_other_separators_stay_in_a_line() -> None:
    assert lines_of("a\u2028b\x85c\x0bd\x1ee\n\nf") == ["a\u2028b\x85c\x0bd\x1ee", "", "f"]


def test_a_text_without_lines_has_none() -> None:
    assert lines_of("") == lines_of("\n\n") == []


def test_what_is_no_text_is_refused() -> None:
    for data in (b"\xff", b"\xff\xfea"):
        with pytest.raises(UnicodeDecodeError):
            decode_text(data)
