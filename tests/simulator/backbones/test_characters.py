"""The encoder of characters: what it learns from, what it gives, and that it is kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.backbones.backbone import Backbone
from fleetledger.simulator.backbones.backbone_store import kept_backbone
from fleetledger.simulator.backbones.characters import character_encoder, preprocessing_of
from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.datasets.text_windows import Corpus
from fleetledger.simulator.datasets.texts import TextSettings, split_texts
from fleetledger.simulator.errors import BackboneError
from fleetledger.simulator.scenario.backbone import CharacterSettings
from tests.simulator.datasets.drawing import pixels
from tests.simulator.text.making import PREPROCESSING, one_hot_encoder

SMALL = CharacterSettings(width=12, epochs=3)


def spoken(seed: int, words: int) -> str:
    """Some words, of which those in `ab` go on with c or d, and no other does."""
    drawn = np.random.default_rng(seed).choice(["abc", "abd", "cc", "dcd", "b", "a!"], words)
    return " ".join(drawn)


SAID = {
    "one": spoken(1, 120),
    "two": spoken(2, 119),
    "public": spoken(3, 80),
    "more": spoken(4, 60),
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))


def split(speakers: int = 2):
    return split_texts(SAID, TextSettings(length=6, speakers=speakers), 0.2)


def test_its_alphabet_is_that_of_the_public_text() -> None:
    made = preprocessing_of(Corpus(("xyz",), ("ba c", "ab\n"), 5))
    assert (made.alphabet, made.length, made.unknown_id) == ("\n abc", 5, 1)
    assert preprocess(b"xab", made).tolist() == [0, 0, 1, 4, 5]


def test_it_is_for_texts_with_a_public_part() -> None:
    part = LabelledImages(pixels(0, 3, 4, 4), np.zeros(3, np.int64), (ClassName("eel"),))
    with pytest.raises(BackboneError, match="the samples are pictures"):
        character_encoder(SMALL, Split(part, part))
    with pytest.raises(BackboneError, match=r"data\.text\.speakers: 4 leave 0 characters"):
        character_encoder(SMALL, split(speakers=4))


def test_without_torch_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(BackboneError, match=r"pip install .*\[train\].*network = 'file'"):
        character_encoder(SMALL, split())


def test_what_is_made_is_kept_for_what_decides_it() -> None:
    calls = []

    def make() -> Backbone:
        calls.append(1)
        return Backbone("x", one_hot_encoder(), PREPROCESSING)

    first = kept_backbone("x", {"seed": 1}, make)
    assert kept_backbone("x", {"seed": 1}, make) == first == make()
    assert len(calls) == 2
    kept_backbone("x", {"seed": 2}, make)
    assert len(calls) == 3


def test_a_cache_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "file"))
    with pytest.raises(BackboneError, match="name another folder in FLEETLEDGER_CACHE"):
        kept_backbone("x", {}, lambda: Backbone("x", b"x", PREPROCESSING))
