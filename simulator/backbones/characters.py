"""A small encoder of characters, learned from the public part of a text: what a BERT is to words.

It is a table of embeddings and one recurrent layer (GRU); its features are the last state. It
learns to predict every next character of what speakers say who own no sample. So it has met
neither training nor test text of the fleet; it has met the classes, as ImageNet's networks have met
cats. Characters that the public text lacks are unknown to it.
"""

from __future__ import annotations

import importlib.metadata

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.pip_command import pip_install
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.text import TextPreprocessing
from fleetledger.schemas.values import Digest
from fleetledger.simulator.backbones.backbone import Backbone
from fleetledger.simulator.backbones.backbone_store import kept_backbone
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.text_windows import Corpus, TextWindows
from fleetledger.simulator.errors import BackboneError
from fleetledger.simulator.scenario.backbone import CharacterSettings

NAME = "characters"
INPUT_NAME = "tokens"
_RECIPE = 1
"""Higher when the way of learning changes, so that kept encoders are made anew."""


def character_encoder(settings: CharacterSettings, split: Split) -> Backbone:
    """Return the encoder for the texts of `split`; it learns where it is not kept yet.

    Raises `BackboneError` for samples that are no texts, a text without a public part, and without
    torch where the encoder has to learn.
    """
    if not isinstance(split.train, TextWindows):
        raise BackboneError(
            "backbone.network: 'characters', but the samples are pictures; give another network, "
            "or a data set of texts"
        )
    corpus = split.train.corpus
    public = sum(map(len, corpus.public))
    if public <= 10 * corpus.length:
        raise BackboneError(
            f"data.text.speakers: {len(corpus.texts)} leave {count_of(public, 'character')} of "
            "public text, too few to learn from; give fewer, so that more than "
            f"{10 * corpus.length} remain, or an encoder with network = 'file'"
        )
    decides = {
        "recipe": _RECIPE,
        "settings": settings.model_dump(mode="json"),
        "length": corpus.length,
        "public": Digest.of(canonical_json(list(corpus.public))),
        "torch": _torch_version(),
    }
    return kept_backbone(NAME, decides, lambda: _learn(settings, corpus))


def preprocessing_of(corpus: Corpus) -> TextPreprocessing:
    """Return how windows become ids: the public text's characters in the order of code points."""
    alphabet = "".join(sorted(set().union(*corpus.public)))
    return TextPreprocessing(
        mode="text",
        tokens="characters",
        alphabet=alphabet,
        length=corpus.length,
        pad_id=0,
        unknown_id=1,
        input_name=INPUT_NAME,
    )


def _learn(settings: CharacterSettings, corpus: Corpus) -> Backbone:
    # torch takes seconds to import, and is an extra
    from fleetledger.simulator.backbones.language_model import learn_encoder  # noqa: PLC0415

    preprocessing = preprocessing_of(corpus)
    return Backbone(NAME, learn_encoder(settings, corpus.public, preprocessing), preprocessing)


def _torch_version() -> str:
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError as error:
        raise BackboneError(
            "backbone.network: 'characters' learns with torch, which is not installed; "
            f"{pip_install('train')}, or give network = 'file'"
        ) from error
