"""The head: scores, probabilities, and the same bytes for the same weights."""

from typing import Any

import numpy as np
import onnxruntime
import pytest

from fleetledger.export.errors import ModelFileError, ParityError
from fleetledger.export.head import build_head, head_scores
from fleetledger.export.parity import require_novelty
from fleetledger.export.runtime import LoadedModel
from fleetledger.learning.numerics.score_novelty import ScoreNovelty
from tests.export.networks import load


def weights(classes: int = 4, width: int = 6) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(classes, width))


def test_scores_and_probabilities_are_those_of_the_formula() -> None:
    features = np.random.default_rng(3).integers(0, 128, (5, 6)).astype(np.float32)
    matrix = weights() / 100
    session = onnxruntime.InferenceSession(
        build_head(matrix, logit_scale=10.0), providers=["CPUExecutionProvider"]
    )
    scores, probabilities = session.run(["scores", "probabilities"], {"features": features})
    expected = features @ matrix.T
    powers = np.exp(10.0 * expected)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    np.testing.assert_allclose(probabilities, powers / powers.sum(1, keepdims=True), atol=1e-4)
    assert scores.dtype == probabilities.dtype == np.float32


def novelty(rows: tuple[int, ...], seed: int = 4) -> ScoreNovelty:
    """That of scores which are close to 1 for one class and to 0 for the others."""
    agreement = 50 * np.eye(len(rows)) + np.random.default_rng(seed).random((len(rows),) * 2)
    counts, scales = np.full(len(rows), 60), np.linspace(0.5, 2, len(rows))
    made = ScoreNovelty.of(agreement, counts, scales, np.array(rows))
    assert made is not None
    return made


@pytest.mark.parametrize("rows", [(0, 1, 2, 3), (3, 0, 2)])
def test_novelty_is_that_of_the_scores(rows: tuple[int, ...]) -> None:
    features = np.random.default_rng(3).integers(0, 128, (50, 6)).astype(np.float32)
    told = novelty(rows)
    found = LoadedModel(build_head(weights() / 500, novelty=told)).run({"features": features})
    assert found["novelty"].shape == (50, 1)
    assert float(found["novelty"].std()) > 0.1
    np.testing.assert_allclose(found["novelty"][:, 0], told.of_scores(found["scores"]), atol=1e-4)
    plain = LoadedModel(build_head(weights() / 500)).run({"features": features})
    assert list(plain) == ["scores", "probabilities"]
    assert np.array_equal(plain["scores"], found["scores"])


def test_novelty_that_strays_from_that_of_its_scores_does_not_leave() -> None:
    file = build_head(weights() / 500, novelty=novelty((0, 1, 2, 3)))
    features = np.random.default_rng(3).integers(0, 128, (50, 6)).astype(np.float32)
    require_novelty(file, novelty((0, 1, 2, 3)), features)
    with pytest.raises(ParityError, match=r"novelty: strays by 0\.\d+ on 50 samples"):
        require_novelty(file, novelty((0, 1, 2, 3), seed=5), features)


def test_equal_weights_give_equal_bytes_whatever_their_type_and_order_in_memory() -> None:
    single = weights().astype(np.float32)
    first = build_head(single)
    assert first == build_head(np.asfortranarray(single))
    assert first == build_head(single.astype(np.float64))
    assert first != build_head(single, logit_scale=9.0)


def test_the_head_keeps_to_the_versions_that_old_runtimes_read() -> None:
    model = load(build_head(weights()))
    assert model.ir_version <= 10
    assert [(entry.domain, entry.version <= 20) for entry in model.opset_import] == [("", True)]
    assert not model.producer_name


def test_one_class_is_a_head_too() -> None:
    scores = head_scores(build_head(np.ones((1, 3))), np.ones((2, 3), np.float32))
    assert scores.tolist() == [[3], [3]]


@pytest.mark.parametrize(
    ("matrix", "scale", "message"),
    [
        (np.ones(3), 10.0, r"weights: shape \(3,\) is no head"),
        (np.ones((0, 3)), 10.0, r"weights: shape \(0, 3\)"),
        (np.full((2, 3), np.nan), 10.0, "weights: NaN"),
        (np.full((2, 3), 1e300), 10.0, "too large for float32"),
        (np.ones((2, 3)), 0.0, "logit_scale: 0.0 .* above 0"),
        (np.ones((2, 3)), float("inf"), "logit_scale: inf"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_a_wrong_head_is_refused(matrix: Any, scale: float, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        build_head(matrix, scale)
