"""Dense networks as ONNX give every pixel the scores of the network itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fleetledger.export.errors import ModelFileError
from fleetledger.export.rules import check
from fleetledger.export.runtime import LoadedModel
from fleetledger.export.segmentation import export_segmentation
from fleetledger.learning.networks.segmentation.network import SegmentationNetwork
from fleetledger.learning.networks.segmentation.registry import build_segmentation
from fleetledger.schemas.models import FEATURES, SCORES, SMALL_SCORES, Preprocessing
from tests.export.networks import load
from tests.learning.networks.segmentation.reference import ROWS, SMALL_DEEPLAB, used

COLOUR = Preprocessing(
    mode="RGB",
    size=(34, 45),
    mean=(0.5, 0.4, 0.3),
    deviation=(0.2, 0.2, 0.3),
    input_name="image",
)
TOLERANCE = 1e-5
"""Of the largest score."""
LIGHT = ("small_dense", "lraspp_mobilenet_v2", "lraspp_mobilenet_v3_large")


def built(name: str) -> SegmentationNetwork:
    return SMALL_DEEPLAB if name == "small deeplab" else build_segmentation(name, COLOUR.shape)


def pictures(count: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(1).normal(size=(count, *COLOUR.shape)).astype(np.float32)


def run_pair(
    network: SegmentationNetwork, arrays: dict[str, Any], images: npt.NDArray[np.float32]
) -> dict[str, npt.NDArray[Any]]:
    files = export_segmentation(network, arrays, COLOUR)
    features = LoadedModel(files.trunk).run({"image": images})[FEATURES]
    return LoadedModel(files.head.file()).run({FEATURES: features})


def torchs(
    network: SegmentationNetwork, arrays: dict[str, Any], images: npt.NDArray[np.float32]
) -> Any:
    import torch

    from fleetledger.learning.networks.conversion import to_tensors
    from fleetledger.learning.networks.segmentation.torch_layers import DensePass
    from fleetledger.learning.networks.torch_layers import Mode

    with torch.no_grad():
        outputs, _ = DensePass(network)(*to_tensors(arrays), torch.from_numpy(images), Mode())
    return outputs


@pytest.mark.parametrize("name", [*LIGHT, "deeplabv3_mobilenet_v3_large", "small deeplab"])
@pytest.mark.torch
def test_the_pair_gives_every_pixel_torchs_scores(name: str) -> None:
    network = built(name)
    arrays, images = used(network), pictures(2)
    expected = torchs(network, arrays, images)
    found = run_pair(network, arrays, images)
    assert found[SCORES].shape == (2, ROWS, 34, 45)
    for output, wanted in ((SCORES, expected.logits), (SMALL_SCORES, expected.small_logits)):
        largest = float(wanted.abs().max())
        assert np.abs(found[output] - wanted.numpy()).max() <= TOLERANCE * largest


def test_a_batch_gives_what_its_pictures_give_one_by_one() -> None:
    arrays, images = used(SMALL_DEEPLAB), pictures(3)
    together = run_pair(SMALL_DEEPLAB, arrays, images)[SCORES]
    alone = [run_pair(SMALL_DEEPLAB, arrays, image[None])[SCORES] for image in images]
    np.testing.assert_allclose(together, np.concatenate(alone), atol=1e-5 * np.abs(together).max())


@pytest.mark.parametrize("name", ["small_dense", "lraspp_mobilenet_v2", "small deeplab"])
def test_declared_shapes_are_those_of_the_results_and_only_the_batch_is_free(name: str) -> None:
    network = built(name)
    files = export_segmentation(network, used(network), COLOUR)
    features = LoadedModel(files.trunk).run({"image": pictures(2)})[FEATURES]
    scores = LoadedModel(files.head.file()).run({FEATURES: features})
    results = {FEATURES: features, **scores}
    for model in (load(files.trunk), load(files.head.file())):
        for value in model.graph.output:
            first, *others = value.type.tensor_type.shape.dim
            assert first.dim_param == "N"
            assert tuple(axis.dim_value for axis in others) == results[value.name].shape[1:]


def test_files_keep_to_the_rules_of_the_house_and_to_their_content() -> None:
    one, other = (export_segmentation(SMALL_DEEPLAB, used(SMALL_DEEPLAB), COLOUR) for _ in range(2))
    assert one.trunk == other.trunk
    assert one.head.file() == other.head.file()
    for data in (one.trunk, one.head.file()):
        model = check(data)
        assert model.ir_version <= 10
        assert max(entry.version for entry in model.opset_import) <= 20


def test_a_new_class_moves_the_head_alone() -> None:
    from fleetledger.learning.networks.segmentation.head import grow_from_background

    arrays = used(SMALL_DEEPLAB)
    before = export_segmentation(SMALL_DEEPLAB, arrays, COLOUR)
    after = export_segmentation(SMALL_DEEPLAB, grow_from_background(arrays, 2), COLOUR)
    assert after.trunk == before.trunk
    assert after.head.shape == (ROWS + 2, SMALL_DEEPLAB.width)
    assert after.head.file() != before.head.file()


def test_the_heads_formula_is_that_of_its_file() -> None:
    files = export_segmentation(SMALL_DEEPLAB, used(SMALL_DEEPLAB), COLOUR)
    features = LoadedModel(files.trunk).run({"image": pictures(2)})[FEATURES]
    found = LoadedModel(files.head.file()).run({FEATURES: features})
    for name, expected in (
        (SCORES, files.head.expected(features)),
        (SMALL_SCORES, files.head.expected_small(features)),
    ):
        assert expected.dtype == np.float64
        assert expected.shape == found[name].shape
        assert np.abs(found[name] - expected).max() <= 1e-6 * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.nightly  # a small one of the same layers by day, in test_the_pair_gives...
def test_deeplab_on_resnet101_gives_torchs_scores() -> None:
    network = build_segmentation("deeplabv3_resnet101", COLOUR.shape)
    arrays, images = used(network), pictures(1)
    expected = torchs(network, arrays, images).logits
    found = run_pair(network, arrays, images)[SCORES]
    assert np.abs(found - expected.numpy()).max() <= TOLERANCE * float(expected.abs().max())


def test_a_missing_tensor_is_named() -> None:
    arrays = used(SMALL_DEEPLAB)
    del arrays["classifier.1.weight"]
    with pytest.raises(ModelFileError, match=r"classifier\.1\.weight' is missing"):
        export_segmentation(SMALL_DEEPLAB, arrays, COLOUR)
    with pytest.raises(ModelFileError, match="'backbone"):
        export_segmentation(SMALL_DEEPLAB, {}, COLOUR)


def test_weights_that_are_no_numbers_are_refused() -> None:
    arrays = used(SMALL_DEEPLAB)
    arrays["classifier.1.weight"] = np.full_like(arrays["classifier.1.weight"], np.nan)
    with pytest.raises(ModelFileError, match=r"'classifier\.1\.weight' holds NaN"):
        export_segmentation(SMALL_DEEPLAB, arrays, COLOUR)


def test_another_layout_is_refused() -> None:
    other = COLOUR.model_copy(update={"layout": "NHWC"})
    with pytest.raises(ModelFileError, match="layout"):
        export_segmentation(SMALL_DEEPLAB, used(SMALL_DEEPLAB), other)


@pytest.mark.parametrize(
    ("name", "size", "what"),
    [("small deeplab", (4096, 4097), "scores"), ("small_dense", (2400, 2400), "features")],
)
def test_maps_that_would_fill_a_device_are_refused(
    name: str, size: tuple[int, int], what: str
) -> None:
    network, large = built(name), COLOUR.model_copy(update={"size": size})
    with pytest.raises(ModelFileError, match=f"{what} of one picture would be"):
        export_segmentation(network, used(network), large)


def test_a_head_of_the_background_alone_is_a_head() -> None:
    files = export_segmentation(SMALL_DEEPLAB, SMALL_DEEPLAB.initial(0, ()), COLOUR)
    features = LoadedModel(files.trunk).run({"image": pictures(1)})[FEATURES]
    assert LoadedModel(files.head.file()).run({FEATURES: features})[SCORES].shape == (1, 1, 34, 45)
