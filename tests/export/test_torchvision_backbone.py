"""torchvision's networks become backbones that give torch's own features."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import safetensors.numpy
import torch
from torch import nn

from fleetledger.export.backbone import import_backbone
from fleetledger.export.errors import (
    ModelFileError,
    NetworkExportError,
    OutputFileError,
    ParityError,
)
from fleetledger.export.graph import opset_of
from fleetledger.export.mobilenet_v2 import (
    build_mobilenet_v2,
    imagenet_preprocessing,
    random_weights,
)
from fleetledger.export.noise import noise_inputs, noise_picture
from fleetledger.export.preprocessing_file import load_preprocessing
from fleetledger.export.runtime import LoadedModel
from fleetledger.export.torchvision_backbone import (
    TorchvisionBackbone,
    TorchvisionRequest,
    export_torchvision,
    relative_difference,
    to_onnx,
    torch_features,
)
from fleetledger.export.torchvision_network import (
    FeatureNetwork,
    build_network,
    find_recipe,
    settle_norms,
)
from fleetledger.learning.numerics.preprocessing import preprocess
from tests.export.networks import load

pytestmark = pytest.mark.torchvision
ROOT = Path(__file__).parents[2]
SIZE = 32


def run(model: bytes, inputs: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return next(iter(LoadedModel(model).run({"image": inputs}).values()))


def random(name: str, size: int = SIZE, seed: int = 0) -> TorchvisionBackbone:
    return export_torchvision(TorchvisionRequest(name, None, size, seed))


def lively_weights() -> dict[str, npt.NDArray[np.float32]]:
    """MobileNetV2's weights, with batch norms that do something."""
    generator = np.random.default_rng(5)
    weights = random_weights()
    for name, values in weights.items():
        if name.endswith(("running_mean", "bias")):
            weights[name] = generator.normal(0, 0.3, values.shape).astype(np.float32)
        elif values.ndim == 1:
            weights[name] = generator.uniform(0.5, 1.5, values.shape).astype(np.float32)
    return weights


def original(name: str, size: int = SIZE) -> nn.Module:
    """The network of seed 0 as torchvision makes it, its norms settled, with its classifier."""
    build_network(name, size)  # imports torchvision, also one whose operators do not load
    from torchvision import models

    torch.manual_seed(0)
    module: nn.Module = models.get_model(name, weights=None).eval()
    settle_norms(module, size)
    return module


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("mobilenet_v2", 1280),
        ("mobilenet_v3_small", 576),
        ("mobilenet_v3_large", 960),
        ("resnet18", 512),
        ("resnet50", 2048),
    ],
)
def test_a_network_becomes_a_backbone_with_the_features_of_torch(name: str, width: int) -> None:
    exported = random(name)
    assert exported.difference < 1e-5
    imported = import_backbone(exported.model, exported.preprocessing)
    assert imported.feature_width == exported.feature_width == width
    inputs = noise_inputs(exported.preprocessing, 3)
    expected = torch_features(build_network(name, SIZE), inputs)
    assert len(np.unique(expected, axis=0)) == 3
    np.testing.assert_allclose(run(exported.model, inputs), expected, atol=1e-5 * expected.max())


@pytest.mark.slow
def test_the_vision_transformer_of_the_page_becomes_a_backbone() -> None:
    exported = random("vit_b_16", 64)
    assert exported.feature_width == 768
    assert exported.difference < 1e-5


def test_features_are_those_of_a_network_written_down_without_torch(tmp_path: Path) -> None:
    weights = lively_weights()  # of MobileNetV2, without its classifier
    path = tmp_path / "weights.safetensors"
    safetensors.numpy.save_file(weights, path)
    exported = export_torchvision(TorchvisionRequest("mobilenet_v2", path, SIZE))
    inputs = noise_inputs(imagenet_preprocessing(SIZE), 4)
    expected = run(build_mobilenet_v2(SIZE, weights), inputs)
    assert np.ptp(expected, axis=0).max() > 0.1
    # Both fold the batch norms and sum in float32, each in its own order, through 52 layers.
    np.testing.assert_allclose(run(exported.model, inputs), expected, atol=5e-5 * expected.max())


def test_a_transformer_attends_in_onnx_as_in_torch_for_any_number_of_pictures() -> None:
    build_network("resnet18", SIZE)
    from torchvision.models import VisionTransformer

    torch.manual_seed(1)
    module = VisionTransformer(SIZE, 16, 2, 2, 24, 48).eval()
    for parameter in module.parameters():  # some begin as zeros, which would hide an error
        nn.init.normal_(parameter, std=0.3)
    module.heads = nn.Identity()  # type: ignore[assignment]
    network = FeatureNetwork("vit_tiny", SIZE, module, "heads")
    inputs = noise_inputs(find_recipe("vit_b_16").preprocessing(SIZE), 5)
    expected = torch_features(network, inputs)
    for count in (1, 2, 5):
        np.testing.assert_allclose(
            run(to_onnx(network), inputs[:count]), expected[:count], atol=1e-5
        )


@pytest.mark.parametrize(
    ("name", "classifier"),
    [
        ("mobilenet_v3_small", "classifier.0"),
        ("resnet18", "fc"),
        ("densenet121", "classifier"),
        ("shufflenet_v2_x0_5", "fc"),
        ("swin_t", "head"),
        ("convnext_tiny", "classifier.2"),
        ("regnet_x_400mf", "fc"),
    ],
)
def test_features_are_what_the_first_layer_of_the_classifier_sees(
    name: str, classifier: str
) -> None:
    whole, seen = original(name, 64), []
    layer = whole.get_submodule(classifier)
    assert isinstance(layer, nn.Linear)
    layer.register_forward_pre_hook(lambda _, given: seen.append(given[0].numpy()))
    inputs = noise_inputs(find_recipe(name).preprocessing(64), 2)
    with torch.no_grad():
        whole(torch.from_numpy(inputs))
    np.testing.assert_array_equal(torch_features(build_network(name, 64), inputs), seen[0])


def test_squeezenet_gives_its_pooled_map_though_it_classifies_every_pixel() -> None:
    whole, network = original("squeezenet1_1", 64), build_network("squeezenet1_1", 64)
    inputs = noise_inputs(find_recipe("squeezenet1_1").preprocessing(64), 2)
    with torch.no_grad():
        pooled = whole.features(torch.from_numpy(inputs)).relu().mean((2, 3)).numpy()  # type: ignore[operator]
    np.testing.assert_allclose(torch_features(network, inputs), pooled, atol=1e-6)


def test_equal_weights_give_equal_bytes_without_traces_of_the_machine() -> None:
    first, again, other = (random("mobilenet_v3_small", seed=seed) for seed in (3, 3, 4))
    assert first.model == again.model
    assert first.model != other.model
    model = load(first.model)
    assert (model.ir_version, opset_of(model)) == (9, 17)
    assert model.producer_name == model.doc_string == ""
    assert b"site-packages" not in first.model
    assert str(ROOT).encode() not in first.model


@pytest.mark.parametrize("name", ["mobilenet_v2", "efficientnet_b0", "swin_t", "inception_v3"])
def test_preprocessing_is_the_evaluation_transform_of_torchvision(name: str) -> None:
    recipe = find_recipe(name)
    from torchvision import models

    transform = next(iter(models.get_model_weights(name))).transforms()
    picture = noise_picture(1).resize((500, 401))
    ours = preprocess(picture, recipe.preprocessing(recipe.crop))
    np.testing.assert_allclose(ours, transform(picture).numpy(), atol=1e-6)


def test_a_published_file_name_chooses_its_own_recipe() -> None:
    first, second = find_recipe("resnet50"), find_recipe("resnet50", "resnet50-11ad3fa6.pth")
    assert (first.name, first.shorter_side) == ("IMAGENET1K_V1", 256)
    assert (second.name, second.shorter_side) == ("IMAGENET1K_V2", 232)
    assert find_recipe("resnet50", "mine.pth") == first
    assert second.preprocessing(112).shorter_side == 116
    assert random("resnet18").preprocessing == imagenet_preprocessing(SIZE).model_copy(
        update={"shorter_side": 36}
    )


def test_pictures_have_the_usual_size_unless_told_otherwise() -> None:
    assert random("shufflenet_v2_x0_5", size=SIZE).preprocessing.size == (SIZE, SIZE)
    request = TorchvisionRequest("squeezenet1_1", None)
    assert export_torchvision(request).preprocessing.size == (224, 224)


def test_files_are_written_and_read_back(tmp_path: Path) -> None:
    exported = random("mobilenet_v3_small")
    path = tmp_path / "small.onnx"
    described = exported.write_to(path)
    assert described == tmp_path / "small.toml"
    assert load_preprocessing(described) == exported.preprocessing
    imported = import_backbone(path.read_bytes(), load_preprocessing(described))
    assert imported.feature_width == 576
    with pytest.raises(OutputFileError, match=r"small\.onnx: cannot be written: .*another place"):
        exported.write_to(path / "small.onnx")


def test_features_that_stray_are_refused() -> None:
    request = TorchvisionRequest("mobilenet_v3_small", None, SIZE)
    with pytest.raises(ParityError, match=r"of the largest feature on 8 pictures exceeds 1e-12"):
        export_torchvision(request, tolerance=1e-12)


def test_the_difference_is_relative_to_the_largest_feature() -> None:
    expected = np.array([[1, -4], [0, 2]], np.float32)
    assert relative_difference(expected, expected) == 0
    assert relative_difference(expected + np.float32([[0, 0], [1, 0]]), expected) == 0.25
    assert relative_difference(expected[:1], expected) == math.inf
    assert math.isnan(relative_difference(expected * np.float32("nan"), expected))
    nothing = np.zeros((2, 2), np.float32)
    assert relative_difference(nothing, nothing) == 0
    assert relative_difference(expected, nothing) == math.inf


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("mobilenetv2", 32, "'mobilenetv2' is no classification network of it.*mobilenet_v2"),
        ("fcn_resnet50", 32, "for example .*resnet50"),
        ("resnet18", 0, "size: 0 is not allowed; give 1 to 8192"),
        ("vit_b_16", 100, "vit_b_16 cannot take pictures of 100 pixels .*give its usual 224"),
        ("inception_v3", 32, "inception_v3 cannot take pictures of 32 pixels .*usual 299"),
    ],
)
def test_a_wrong_network_or_size_is_told_with_a_way_out(name: str, size: int, message: str) -> None:
    with pytest.raises(NetworkExportError, match=message):
        random(name, size)


def test_a_network_above_the_limit_of_a_model_file_is_refused_before_it_is_written() -> None:
    huge = FeatureNetwork("huge", SIZE, nn.Linear(20_000, 10_000, device="meta"), "fc")
    with pytest.raises(ModelFileError, match="weights of huge are 800040000 bytes, more than"):
        to_onnx(huge)


def test_a_seed_is_refused_beside_weights_from_a_file() -> None:
    with pytest.raises(
        NetworkExportError, match=r"seed: 0 has no meaning with weights from a\.pth"
    ):
        TorchvisionRequest("resnet18", Path("a.pth"), 32, 0)


def test_a_network_leaves_the_random_numbers_of_others_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    build_network("squeezenet1_1", SIZE)
    assert torch.equal(torch.rand(3), expected)


def test_torchvision_is_used_even_if_its_compiled_operators_do_not_load() -> None:
    program = (
        "import torch\n"
        "def refuse(path): raise OSError('built for something else')\n"
        "torch.ops.load_library = refuse\n"
        "from fleetledger.export.torchvision_network import find_recipe\n"
        "print(find_recipe('resnet18').crop)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "224\n"), done.stderr


def test_features_of_a_deep_network_of_random_weights_stay_of_a_usual_size():
    network = build_network("resnet50", SIZE)
    noise = np.random.default_rng(1).normal(size=(4, 3, SIZE, SIZE)).astype(np.float32)
    features = torch_features(network, noise)
    assert 0.1 < features.std() < 10
    assert np.abs(features).max() < 100
