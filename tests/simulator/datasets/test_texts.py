"""Texts by speakers as samples: which windows there are, of which class, and whose."""

import os
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fleetledger.schemas.values import ClassName, Digest
from fleetledger.simulator.datasets.character_names import character_class
from fleetledger.simulator.datasets.grammar import LONGEST, SHORTEST, SPEAKERS, speak
from fleetledger.simulator.datasets.loading import DataSettings, load_split
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.datasets.speeches import by_speaker, read_speeches
from fleetledger.simulator.datasets.text_windows import TextWindows
from fleetledger.simulator.datasets.texts import TextSettings, split_texts
from fleetledger.simulator.errors import DatasetError

PLAY = """ANN:
One line.
Another line.

BO THE SECOND:
Yes.

(They leave.)

ANN:
Back again.

CY:

BO THE SECOND:
No/yes.
"""


@pytest.mark.parametrize("character", list("aZé?:'\"&-*$0"))
def test_a_character_that_can_be_a_folder_is_its_own_class(character: str) -> None:
    assert character_class(character) == character


def test_other_characters_have_words_or_code_points() -> None:
    named = {c: str(character_class(c)) for c in " \n\t/\\.\x0b\u2028\u200b"}
    assert named == {
        " ": "space",
        "\n": "newline",
        "\t": "tab",
        "/": "slash",
        "\\": "backslash",
        ".": "full-stop",
        "\x0b": "u+000b",
        "\u2028": "u+2028",
        "\u200b": "\u200b",
    }


def test_no_two_characters_share_a_class() -> None:
    """Also not those that Unicode NFC makes one of, such as the two signs for angstrom."""
    characters = [chr(n) for n in range(0x3000) if unicodedata.category(chr(n)) != "Cs"]
    assert len({character_class(character) for character in characters}) == len(characters)


def test_what_speakers_say_is_joined_and_other_blocks_are_left_out() -> None:
    assert by_speaker(PLAY) == {
        "ANN": "One line.\nAnother line.\nBack again.",
        "BO THE SECOND": "Yes.\nNo/yes.",
    }


def test_lines_that_end_as_windows_ends_them_read_the_same(tmp_path: Path) -> None:
    path = tmp_path / "play.txt"
    path.write_bytes(PLAY.replace("\n", "\r\n").encode())
    assert read_speeches(path) == by_speaker(PLAY)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        (b"\xff", "not UTF-8 at byte 0"),
        (b"No speaker here.\n", "no speeches; give blocks with empty lines"),
    ],
)
def test_a_file_without_speeches_is_refused_in_words(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "play.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DatasetError, match=message):
        load_split(DataSettings(set="shakespeare", root=str(path)), seed=1)


def settings(**changes: int) -> TextSettings:
    return TextSettings(
        **{"length": 8, "speakers": 2, "windows": 10_000, "test_windows": 10_000, **changes}
    )


def said() -> dict[str, str]:
    full = speak()
    return {name: full[name][:1500] for name in ("SPEAKER 1", "SPEAKER 2", "SPEAKER 3")}


def parts(**changes: int) -> tuple[TextWindows, TextWindows]:
    split = split_texts(said(), settings(**changes), test_share=0.2)
    return split.train, split.test


def slow_windows(text: str, first: int, end: int, length: int) -> list[tuple[str, str]]:
    return [(text[at - length : at], text[at]) for at in range(first + length, end)]


def test_windows_and_their_next_characters_are_those_of_the_slow_reference() -> None:
    train, test = parts(speakers=1)
    text, cut = train.corpus.texts[0], 1200
    slow_train = dict(reversed(slow_windows(text, 0, cut, 8)))  # of equal windows the first
    slow_test = dict(reversed(slow_windows(text, cut, len(text), 8)))
    slow_test = {window: after for window, after in slow_test.items() if window not in slow_train}
    for part, expected in ((train, slow_train), (test, slow_test)):
        got = {part.text(i): part.class_names[part.labels[i]] for i in range(len(part))}
        named = {window: character_class(after) for window, after in expected.items()}
        assert got == {w: name for w, name in named.items() if name in part.class_names}


def test_no_test_window_is_a_training_window_and_none_is_there_twice() -> None:
    train, test = parts()
    digests = [part.digest(i) for part in (train, test) for i in range(len(part))]
    assert len(set(digests)) == len(digests)
    assert train.digest(3) == Digest.of(train.picture(3))


def test_training_and_test_windows_share_no_character() -> None:
    train, test = parts()
    for owner in range(2):
        last = train.ends[train.owners == owner].max()
        first = test.ends[test.owners == owner].min() - 8
        assert last < first


def test_classes_are_the_most_frequent_characters_in_order() -> None:
    train, _ = parts(classes=5)
    counts = Counter("".join(text[:1200] for text in train.corpus.texts))
    ranked = sorted(counts, key=lambda c: (-counts[c], c))
    assert train.class_names == tuple(map(character_class, ranked[:5]))
    assert len(parts()[0].class_names) == len(counts)


def test_owners_are_those_who_say_most_and_the_rest_is_public() -> None:
    spoken = {
        "few": "abcdefghijklmnop" * 4,
        "much": speak()["SPEAKER 1"],
        "more": speak()["SPEAKER 2"],
    }
    split = split_texts(spoken, settings(), 0.2)
    assert split.train.corpus.texts == (spoken["much"], spoken["more"])
    assert split.train.corpus.public == (spoken["few"],)
    assert set(split.train.owners) == {0, 1}


def test_at_most_so_many_windows_of_a_speaker_stay_evenly_spaced() -> None:
    train, test = parts(windows=50, test_windows=7)
    assert np.bincount(train.owners).max() <= 50
    assert np.bincount(test.owners).max() <= 7
    of_first = np.sort(train.ends[train.owners == 0])
    assert of_first[0] == 8
    assert of_first[-1] == 1199
    assert np.diff(of_first).max() <= 3 * np.diff(of_first).min() + 24


def test_windows_take_turns_so_that_a_limit_leaves_something_of_everybody() -> None:
    train, _ = parts()
    assert train.owners[:6].tolist() == [0, 1, 0, 1, 0, 1]


def test_a_part_can_be_taken_and_is_told_apart() -> None:
    train, test = parts()
    chosen = train.take(np.array([5, 2]))
    assert [chosen.picture(0), chosen.picture(1)] == [train.picture(5), train.picture(2)]
    assert chosen.class_names == train.class_names
    assert train.fingerprint == parts()[0].fingerprint
    assert len({train.fingerprint, test.fingerprint, chosen.fingerprint}) == 3
    as_samples: SampleSet = train
    assert len(as_samples) == len(train.ends)


def test_a_text_that_is_too_short_is_refused_with_the_setting() -> None:
    with pytest.raises(DatasetError, match=r"data\.text\.length: windows of 400 characters leave"):
        parts(length=400)
    with pytest.raises(DatasetError, match=r"data\.text\.classes: 500 of \d+ characters"):
        parts(classes=500)


def test_the_made_up_text_is_the_same_every_time_and_another_for_another_seed() -> None:
    text = speak()
    assert text == speak()
    assert text != speak(1)
    assert len(text) == SPEAKERS
    assert SHORTEST <= min(map(len, text.values())) <= max(map(len, text.values())) < LONGEST + 200


def test_speakers_of_the_made_up_language_differ_in_what_they_say_most() -> None:
    favourites = {Counter(text.lower().split()).most_common(1)[0][0] for text in speak().values()}
    assert len(favourites) > SPEAKERS // 2


def test_the_data_set_grammar_needs_no_file() -> None:
    split = load_split(DataSettings(set="grammar", text=settings(windows=20), per_class=3), seed=1)
    assert np.bincount(split.train.labels).max() == 3
    assert ClassName("space") in split.train.class_names


def test_the_pack_of_shakespeare_has_a_hundred_speakers() -> None:
    folder = os.environ.get("FLEETLEDGER_PACKS")
    path = Path(folder or "", "text", "tinyshakespeare.txt")
    if folder is None or not path.is_file():
        pytest.skip("FLEETLEDGER_PACKS names no folder with text/tinyshakespeare.txt")
    data = DataSettings(
        set="shakespeare", root=str(path), test_share=0.2, text=TextSettings(classes=36)
    )
    split = load_split(data, seed=1)
    assert len(np.unique(split.train.owners)) == 100
    assert split.train.class_names[:4] == ("space", "e", "t", "o")
    assert sum(map(len, split.train.corpus.public)) == 108_343
    assert (np.bincount(split.test.labels, minlength=36) > 20).all()
