"""From what speakers say to samples: which windows, which classes, who owns them.

- Owners are the `speakers` who say most, counted from 0 in that order; the others' text is public.
- Of what an owner says the last `test_share` is test text. A window and the character after it lie
  in one part, so no character of a test window is ever in a training window.
- Classes are the characters of all training text, the most frequent first, ties by code point; with
  `classes` so many of them. A window before another character is left out.
- Of an owner's windows at most `windows`, or `test_windows`, stay, evenly spaced.
- Windows take turns: the first of every owner, then the second of every owner, and so on; so a
  limit per class leaves something of everybody.
- A window is there once. Of equal ones the first stays, those of the training part before others:
  two files of equal content would be one sample, perhaps of two classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.strict import Strict
from fleetledger.simulator.datasets.character_names import character_class
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.text_windows import Corpus, TextWindows
from fleetledger.simulator.errors import DatasetError

Indices = NDArray[np.int64]


class TextSettings(Strict):
    """`[data.text]`: how a text by several speakers becomes samples (docs/text.md)."""

    length: int = Field(default=64, ge=1, le=1024)
    """Characters of a sample; its class is the character that follows."""
    classes: int | None = Field(default=None, ge=2)
    """So many of the most frequent characters are classes; left out, all."""
    speakers: int = Field(default=100, ge=1)
    """Those who speak most are natural owners; what all others say is public text, from which an
    encoder may learn."""
    windows: int = Field(default=1000, ge=1)
    """Most training samples of a speaker, evenly spaced over what is to be learned from."""
    test_windows: int = Field(default=200, ge=1)
    """Most test samples of a speaker, evenly spaced over the rest."""


@dataclass(frozen=True)
class _Part:
    """Where the characters stand that follow a window: one range for each owner."""

    ranges: tuple[range, ...]
    most: int


def split_texts(
    said: Mapping[str, str], settings: TextSettings, test_share: float
) -> Split[TextWindows]:
    """Return training and test windows of what speakers say; raise `DatasetError` if none remain.

    The same text and settings give the same samples in the same order.
    """
    ranked = sorted(said, key=lambda name: (-len(said[name]), name))
    texts = tuple(said[name] for name in ranked)
    corpus = Corpus(texts[: settings.speakers], texts[settings.speakers :], settings.length)
    cuts = [len(text) - round(test_share * len(text)) for text in corpus.texts]
    train = _Part(tuple(range(settings.length, cut) for cut in cuts), settings.windows)
    test = _Part(
        tuple(
            range(cut + settings.length, len(text))
            for cut, text in zip(cuts, corpus.texts, strict=True)
        ),
        settings.test_windows,
    )
    classes = _classes([text[:cut] for text, cut in zip(corpus.texts, cuts, strict=True)], settings)
    seen: set[str] = set()
    parts = [_windows(corpus, part, classes, seen) for part in (train, test)]
    if not all(map(len, parts)):
        raise DatasetError(
            f"data.text.length: windows of {settings.length} characters leave {len(parts[0])} to "
            f"learn from and {len(parts[1])} to be asked about; give a smaller length, or more text"
        )
    return Split(*parts)


def _classes(texts: list[str], settings: TextSettings) -> str:
    """Return the characters that are classes, in the order of their labels."""
    numbers: Counter[str] = Counter()
    for text in texts:
        numbers.update(text)
    ranked = sorted(numbers, key=lambda character: (-numbers[character], character))
    if settings.classes is not None and settings.classes > len(ranked):
        raise DatasetError(
            f"data.text.classes: {settings.classes} of {count_of(len(ranked), 'character')}; give "
            "fewer"
        )
    return "".join(ranked[: settings.classes])


def _windows(corpus: Corpus, part: _Part, classes: str, seen: set[str]) -> TextWindows:
    """Return the windows of a part that are not in `seen`, and put them there."""
    turns = []
    for owner, (text, places) in enumerate(zip(corpus.texts, part.ranges, strict=True)):
        ends = _spaced([place for place in places if text[place] in classes], part.most)
        turns.append(np.stack([np.arange(len(ends)), np.full(len(ends), owner), ends]))
    rank, owners, ends = np.concatenate(turns, axis=1) if turns else np.empty((3, 0), np.int64)
    order = np.lexsort((owners, rank))
    label = {character: number for number, character in enumerate(classes)}
    labels = np.array(
        [label[corpus.texts[owner][end]] for owner, end in zip(owners, ends, strict=True)], np.int64
    )
    names = tuple(map(character_class, classes))
    every = TextWindows(corpus, ends, labels, names, owners).take(order)
    return every.take(_new(every, seen))


def _spaced(places: list[int], most: int) -> Indices:
    """Return at most so many places, evenly spaced."""
    if len(places) <= most:
        return np.array(places, np.int64)
    chosen = np.linspace(0, len(places) - 1, most).astype(np.int64)
    return np.array(places, np.int64)[chosen]


def _new(windows: TextWindows, seen: set[str]) -> Indices:
    kept = []
    for index in range(len(windows)):
        text = windows.text(index)
        if text not in seen:
            seen.add(text)
            kept.append(index)
    return np.array(kept, np.int64)
