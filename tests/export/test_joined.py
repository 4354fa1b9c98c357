"""One file instead of two: the joined model gives the answers of the pair."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import version_converter

from fleetledger.export.backbone import import_backbone
from fleetledger.export.errors import ModelFileError, ParityError
from fleetledger.export.frozen import build_frozen, plain_frozen
from fleetledger.export.graph import opset_of, write
from fleetledger.export.head import build_head
from fleetledger.export.joined import join_model, require_equal
from fleetledger.export.network_head import NetworkHead
from fleetledger.export.runtime import LoadedModel
from fleetledger.export.segmentation import export_segmentation
from fleetledger.learning.networks.registry import build_network
from fleetledger.learning.networks.segmentation.registry import build_segmentation
from fleetledger.learning.numerics.score_novelty import ScoreNovelty
from fleetledger.schemas.models import FEATURES, PROBABILITIES, SCORES
from tests.export.networks import COLOUR, WIDTH, data, load, network, pooled, pooled_network, value
from tests.export.test_text_backbone import LENGTH as TEXT_LENGTH
from tests.export.test_text_backbone import TEXT, encoder
from tests.export.test_text_backbone import WIDTH as TEXT_WIDTH

NAMES = ("cat", "dog", "owl")
Pair = tuple[bytes, bytes]


def statistics(opset: int = 17) -> Pair:
    backbone = import_backbone(data(pooled_network(opset=opset)), COLOUR)
    random = np.random.default_rng(2)
    frozen = build_frozen(backbone.model, "integer", random.integers(-2, 3, (WIDTH, 30)))
    return frozen, build_head(random.normal(size=(3, 30)) / 100)


def telling_novelty(opset: int = 17) -> Pair:
    frozen, _ = statistics(opset)
    agreement, counts = np.diag([5.0, 6.0, 7.0]), np.array([8, 9, 10])
    novelty = ScoreNovelty.of(agreement, counts, np.ones(3), np.array([2, 1, 0]))
    weights = np.random.default_rng(2).normal(size=(3, 30)) / 100
    return frozen, build_head(weights, novelty=novelty)


def trained(opset: int = 17) -> Pair:
    backbone = import_backbone(data(pooled_network(opset=opset)), COLOUR)
    described = build_network("fam", (WIDTH,), "hidden")
    head = NetworkHead(described, described.initial(1, NAMES), WIDTH).file(2.0)
    return plain_frozen(backbone.model), head


def images(count: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, *COLOUR.shape)).astype(np.float32)


def dense() -> Pair:
    described = build_segmentation("small_dense", COLOUR.shape)
    made = export_segmentation(described, described.initial(1, NAMES), COLOUR)
    return made.trunk, made.head.file()


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("opset", [11, 13, 17, 20])
@pytest.mark.parametrize("make", [statistics, telling_novelty, trained])
def test_scores_and_probabilities_are_those_of_the_pair(make, opset: int, count: int) -> None:
    frozen, head = make(opset)
    found = LoadedModel(join_model(frozen, head)).run({"image": images(count)})
    features = LoadedModel(frozen).run({"image": images(count)})[FEATURES]
    expected = LoadedModel(head).run({FEATURES: features})
    assert list(found) == [SCORES, PROBABILITIES]
    for name in found:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-5)


def test_the_batch_is_free_and_versions_are_those_that_old_runtimes_read() -> None:
    for opset, expected in ((13, 17), (17, 17), (20, 20)):
        model = load(join_model(*statistics(opset)))
        assert (model.ir_version, opset_of(model)) == (9, expected)
        shapes = [item.type.tensor_type.shape.dim[0].dim_param for item in model.graph.output]
        assert {*shapes, model.graph.input[0].type.tensor_type.shape.dim[0].dim_param} == {"N"}
        onnx.checker.check_model(model, full_check=True)


def test_equal_pairs_give_equal_bytes() -> None:
    assert join_model(*trained()) == join_model(*trained())


def test_a_joined_model_that_strays_from_its_pair_is_refused() -> None:
    frozen, head = trained()
    other = (
        trained()[0],
        NetworkHead(
            build_network("mlp", (WIDTH,)), build_network("mlp", (WIDTH,)).initial(3, NAMES), WIDTH
        ).file(2.0),
    )
    joined = join_model(frozen, head)
    assert require_equal(joined, (frozen, head), {"image": images(8)}, 1e-3) < 1e-4
    with pytest.raises(ParityError, match="scores stray"):
        require_equal(joined, other, {"image": images(8)}, 1e-3)


def test_an_input_with_the_name_of_an_output_is_refused() -> None:
    image = value("scores", ["batch", 3, 12, 10])
    nodes, constants = pooled()
    nodes[0].input[0] = "scores"
    model = network((nodes, constants), value("flat", ["batch", WIDTH]), image)
    named = COLOUR.model_copy(update={"input_name": "scores"})
    frozen = plain_frozen(import_backbone(data(model), named).model)
    with pytest.raises(ModelFileError, match="name of an output of the joined"):
        join_model(frozen, trained()[1])


def test_opsets_that_cannot_be_brought_together_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("no adapter")

    frozen, head = trained(13)
    newer = write(version_converter.convert_version(load(head), 20))
    monkeypatch.setattr("onnx.version_converter.convert_version", refuse)
    with pytest.raises(ModelFileError, match="opset 13 cannot be converted to 20"):
        join_model(frozen, newer)


def test_a_model_of_text_is_joined_too() -> None:
    frozen = plain_frozen(import_backbone(encoder(), TEXT).model)
    described = build_network("mlp", (TEXT_WIDTH,))
    head = NetworkHead(described, described.initial(1, NAMES), TEXT_WIDTH).file(1.0)
    tokens = np.random.default_rng(0).integers(0, 8, (3, TEXT_LENGTH))
    inputs = {"tokens": tokens}
    joined = join_model(frozen, head)
    assert require_equal(joined, (frozen, head), inputs, 1e-3) < 1e-6
    assert LoadedModel(joined).run(inputs)[SCORES].shape == (3, 3)


@pytest.mark.parametrize("count", [1, 3])
def test_a_model_of_pixels_puts_out_the_scores_of_every_pixel_alone(count: int) -> None:
    frozen, head = dense()
    found = LoadedModel(join_model(frozen, head)).run({"image": images(count)})
    features = LoadedModel(frozen).run({"image": images(count)})[FEATURES]
    expected = LoadedModel(head).run({FEATURES: features})
    assert list(found) == [SCORES]
    assert found[SCORES].shape == (count, 4, *COLOUR.size)
    np.testing.assert_allclose(found[SCORES], expected[SCORES], rtol=1e-5, atol=1e-5)


def test_a_joined_model_of_pixels_is_compared_picture_by_picture() -> None:
    pair, inputs = dense(), {"image": images(3)}
    joined = join_model(*pair)
    assert require_equal(joined, pair, inputs, 1e-3) < 1e-4
    described = build_segmentation("small_dense", COLOUR.shape)
    other = export_segmentation(described, described.initial(2, NAMES), COLOUR)
    with pytest.raises(ParityError, match="scores stray"):
        require_equal(joined, (other.trunk, other.head.file()), inputs, 1e-3)
