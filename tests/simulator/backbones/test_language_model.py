"""How the encoder of characters learns, and that its ONNX file gives torch's numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fleetledger.export.backbone import import_backbone
from fleetledger.export.runtime import LoadedModel
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.simulator.backbones.characters import character_encoder, preprocessing_of
from fleetledger.simulator.backbones.language_model import (
    encoder_onnx,
    language_model,
    learn,
    scores_after,
)
from fleetledger.simulator.datasets.texts import TextSettings, split_texts
from fleetledger.simulator.scenario.backbone import CharacterSettings
from tests.simulator.backbones.test_characters import SAID, SMALL, split, spoken

pytestmark = pytest.mark.torch

SPEC = preprocessing_of(split().train.corpus)
TOKENS = len(SPEC.alphabet) + 2


def last_state(network: torch.nn.ModuleDict, ids: torch.Tensor) -> torch.Tensor:
    """Return the features (n, width) of (n, length) ids."""
    return network["recurrent"](network["embedding"](ids))[1][0]


def ids_of(*texts: str) -> np.ndarray:
    return np.stack([preprocess(text.encode(), SPEC) for text in texts])


def test_the_onnx_file_gives_the_last_state_of_the_network() -> None:
    torch.manual_seed(3)
    network = language_model(TOKENS, 12).eval()
    arrays = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    imported = import_backbone(encoder_onnx(arrays, SPEC), SPEC)
    ids = ids_of("abcabc", "d", "b? xyz", "cab")
    with torch.no_grad():
        expected = last_state(network, torch.from_numpy(ids)).numpy()
    (features,) = LoadedModel(imported.model).run({"tokens": ids}).values()
    assert imported.feature_width == 12
    np.testing.assert_allclose(features, expected, rtol=0, atol=1e-6)


def test_the_features_are_the_state_from_which_the_next_character_is_foretold() -> None:
    network = language_model(TOKENS, 12).eval()
    ids = torch.from_numpy(ids_of("abcabc", "dab"))
    with torch.no_grad():
        by_hand = network["scores"](last_state(network, ids))
        assert torch.allclose(by_hand, scores_after(network, ids)[:, -1])


def test_it_learns_what_follows_what() -> None:
    """Behind `ab` comes c or d, behind `a!` a space."""
    texts = (spoken(7, 600), spoken(8, 600))
    network = learn(CharacterSettings(width=24, epochs=30), texts, SPEC)
    with torch.no_grad():
        scores = scores_after(network, torch.from_numpy(ids_of("cc ab", "cc a!")))[:, -1]
    shares = dict(zip(SPEC.alphabet, scores.softmax(dim=1)[:, 2:].T.tolist(), strict=True))
    assert shares["c"][0] + shares["d"][0] > 0.9
    assert shares[" "][1] > 0.9


def test_the_same_seed_learns_the_same_and_leaves_torchs_own_seed_alone() -> None:
    torch.manual_seed(5)
    untouched = torch.rand(3)
    torch.manual_seed(5)
    weights = [
        learn(settings, (SAID["public"],), SPEC).state_dict()
        for settings in (SMALL, SMALL, SMALL.model_copy(update={"seed": 2}))
    ]
    assert torch.equal(torch.rand(3), untouched)
    name = "recurrent.weight_hh_l0"
    assert torch.equal(weights[0][name], weights[1][name])
    assert not torch.equal(weights[0][name], weights[2][name])


def test_speakers_of_a_word_or_less_disturb_nothing() -> None:
    learn(SMALL, (SAID["public"], "a", "ab", "abcabca"), SPEC)


def test_what_devices_say_does_not_change_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoders = []
    for number, owned in enumerate((5, 6)):
        monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / str(number)))
        said = {**SAID, "one": spoken(owned, 120)}
        parts = split_texts(said, TextSettings(length=6, speakers=2), 0.2)
        encoders.append(character_encoder(SMALL, parts))
    assert encoders[0] == encoders[1]
