"""Names that hide something are refused, and names that look alike have one skeleton."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.schemas.class_names import fault_of, look_alike, skeleton

HIDDEN = {
    "a zero-width space": "ap\u200bple",
    "a soft hyphen": "ap\u00adple",
    "a word joiner": "ap\u2060ple",
    "a tag": "apple\U000e0061",
    "a variation selector": "apple\ufe0f",
    "a supplementary one": "apple\U000e0101",
    "a grapheme joiner": "ap\u034fple",
    "a filler of Hangul": "ap\u3164ple",
    "a blank of Braille": "ap\u2800ple",
    "a joiner where nothing joins": "ap\u200dple",
    "a non-joiner where nothing joins": "ap\u200cple",
    "a non-joiner behind a letter that never joins": "\u062f\u200c\u0645",
    "a control character": "ap\u0085ple",
    "a byte order mark": "\ufeffapple",
}
OTHERS = {
    "a no-break space": ("red\u00a0apple", "use a plain space"),
    "an ideographic space": ("red\u3000apple", "use a plain space"),
    "two spaces": ("red  apple", "several in a row"),
    "a space in front": (" apple", "at an end"),
    "a space behind": ("apple ", "at an end"),
    "a private character": ("apple\ue000", "means nothing elsewhere"),
    "a form that is not NFC": ("caf\u0065\u0301", "NFC"),
    "a mark in front": ("\u0301apple", "without a letter"),
    "a heap of marks": ("x" + "\u0301" * 6, "more than four"),
    "Cyrillic in Latin": ("\u0430pple", "Cyrillic and Latin"),
    "Greek in Latin": ("\u0391pple", "Greek and Latin"),
    "Hiragana with Hangul": ("\u3042\ud55c", "Hangul and Hiragana"),
}


@pytest.mark.parametrize("name", HIDDEN.values(), ids=HIDDEN)
def test_what_nobody_sees_is_refused_with_its_name(name: str) -> None:
    assert "which nobody sees" in fault_of(name)


@pytest.mark.parametrize(("name", "words"), OTHERS.values(), ids=OTHERS)
def test_what_looks_like_something_else_is_refused_with_the_way_out(name: str, words: str) -> None:
    assert words in fault_of(name)


def test_names_beyond_ascii_that_look_alike_are_found_and_signs_are_left_apart() -> None:
    assert look_alike("\u0441\u043e\u0440", ["tree", "cop"]) == "cop"
    assert look_alike("cop", ["\u0441\u043e\u0440"]) == "\u0441\u043e\u0440"
    assert look_alike("O", ["0", "o", "O"]) is None
    assert look_alike("tree", ["cop"]) is None


@pytest.mark.parametrize("name", ["a\u2065b", "a\ufff3b", "a\U000e0555b", "a\U0001d159b"])
def test_what_unicode_keeps_for_invisible_characters_is_refused(name: str) -> None:
    assert "which nobody sees" in fault_of(name)


@pytest.mark.parametrize(
    "name",
    [
        "apple",
        "lawn_mower",
        "n01440764",
        "Stra\u00dfe",
        "\u00e9clair",
        "\u0110\u00e0 N\u1eb5ng",
        "\u044f\u0431\u043b\u043e\u043a\u043e",
        "T\u6064",
        "\u6771\u4eac\u30bf\u30ef\u30fc",
        "\u3072\u3089\u304c\u306a Tower",
        "\ud55c\uad6d cat",
        "\u4e2d\u3105a",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u0915\u094d\u200d\u0937",
        "\u0e1b\u0e23\u0e30\u0e40\u0e17\u0e28",
        "H\u2082O 50 %",
    ],
)
def test_names_of_all_languages_are_names(name: str) -> None:
    assert fault_of(name) == ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("coco", "\u0441\u043e\u0441\u043e"),
        ("KATE", "\u039a\u0391\u03a4\u0395"),
        ("apple", "\U0001d41apple"),
        ("fish", "\ufb01sh"),
        ("gate l", "gate 1"),
        ("modern", "modem"),
        ("Ill", "lll"),
    ],
)
def test_names_that_look_alike_have_one_skeleton(one: str, other: str) -> None:
    assert skeleton(one) == skeleton(other)


@pytest.mark.parametrize(("one", "other"), [("rose", "rosee"), ("Apple", "apple"), ("a", "\u00e4")])
def test_names_that_can_be_told_apart_have_two(one: str, other: str) -> None:
    assert skeleton(one) != skeleton(other)


@given(st.text(max_size=30))
def test_any_text_is_judged_and_a_skeleton_is_its_own(text: str) -> None:
    """Law: skeleton(skeleton(x)) == skeleton(x) for names without a fault."""
    name = unicodedata.normalize("NFC", text)
    if fault_of(name) == "":
        assert skeleton(skeleton(name)) == skeleton(name)


def test_the_names_of_digits_are_usable() -> None:
    assert [fault_of(str(digit)) for digit in range(10)] == [""] * 10
