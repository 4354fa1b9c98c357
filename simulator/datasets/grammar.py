"""A small text by speakers of different habits, made by a rule from a seed: nobody wrote it.

The language has `WORDS` words of one to three syllables, a syllable being a consonant and a vowel.
A sentence has three to eight words and ends with a mark; it begins with a capital letter. All
speakers share words, letters and marks, but each has habits, drawn once:

- which words: shares from Dirichlet(0.15) over all words, so that each has favourites;
- what follows: after every word one favourite successor, taken with probability 0.6;
- how a sentence ends: shares from Dirichlet(0.5) over `.`, `!`, `?` and `;`.

So letters follow from the letters before, and differently from speaker to speaker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WORDS = 120
SPEAKERS = 24
LONGEST, SHORTEST = 12_000, 3_000
"""Characters of the most and of the least talkative speaker, about; the others lie between."""
_CONSONANTS, _VOWELS, _MARKS = "bdfgklmnprst", "aeiou", ".!?;"
_HABIT = 0.6
_SENTENCES = 4
"""In a line."""


@dataclass(frozen=True)
class _Habits:
    """How somebody speaks."""

    words: NDArray[np.float64]
    successors: NDArray[np.int64]
    marks: NDArray[np.float64]


def speak(seed: int = 0) -> Mapping[str, str]:
    """Return what each speaker says; the same seed gives the same text."""
    random = np.random.default_rng(seed)
    words = _words(random)
    lengths = np.linspace(LONGEST, SHORTEST, SPEAKERS).astype(int).tolist()
    return {
        f"SPEAKER {number}": _text(words, _habits(random), length, random)
        for number, length in enumerate(lengths, start=1)
    }


def _words(random: np.random.Generator) -> list[str]:
    words: dict[str, None] = {}
    while len(words) < WORDS:
        syllables = random.integers(1, 4)
        consonants = random.choice(list(_CONSONANTS), syllables)
        vowels = random.choice(list(_VOWELS), syllables)
        words["".join(map("".join, zip(consonants, vowels, strict=True)))] = None
    return list(words)


def _habits(random: np.random.Generator) -> _Habits:
    return _Habits(
        random.dirichlet(np.full(WORDS, 0.15)),
        random.integers(0, WORDS, WORDS),
        random.dirichlet(np.full(len(_MARKS), 0.5)),
    )


def _text(words: list[str], habits: _Habits, length: int, random: np.random.Generator) -> str:
    sentences: list[str] = []
    size = 0
    while size < length:
        sentences.append(_sentence(words, habits, random))
        size += len(sentences[-1]) + 1
    lines = [
        " ".join(sentences[first : first + _SENTENCES])
        for first in range(0, len(sentences), _SENTENCES)
    ]
    return "\n".join(lines)


def _sentence(words: list[str], habits: _Habits, random: np.random.Generator) -> str:
    said = [int(random.choice(WORDS, p=habits.words))]
    for _ in range(random.integers(2, 8)):
        follows = random.random() < _HABIT
        after = habits.successors[said[-1]] if follows else random.choice(WORDS, p=habits.words)
        said.append(int(after))
    mark = _MARKS[int(random.choice(len(_MARKS), p=habits.marks))]
    return " ".join(words[word] for word in said).capitalize() + mark
