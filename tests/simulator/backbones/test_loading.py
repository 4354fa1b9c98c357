"""From a scenario's settings to a frozen network."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from fleetledger.export.backbone import import_backbone
from fleetledger.export.errors import PreprocessingFileError
from fleetledger.export.mobilenet_v2 import random_weights
from fleetledger.export.preprocessing_file import preprocessing_toml
from fleetledger.export.runtime import LoadedModel
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.runtime.pip_command import pip_install
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.backbones.loading import Backbone, load_backbone
from fleetledger.simulator.datasets.digits import split_digits
from fleetledger.simulator.datasets.file_digests import FileDigests
from fleetledger.simulator.datasets.files import ImageFiles
from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.errors import BackboneError
from fleetledger.simulator.scenario.backbone import BackboneSettings
from tests.export.networks import COLOUR, WIDTH, data, pooled_network
from tests.simulator.datasets.drawing import draw_all, pixels

PIXELS = BackboneSettings()


def split(*shape: int) -> Split[LabelledImages]:
    part = LabelledImages(pixels(0, 3, *shape), np.zeros(3, np.int64), (ClassName("eel"),))
    return Split(part, part)


def features(backbone: Backbone, picture) -> np.ndarray:
    imported = import_backbone(backbone.data, backbone.preprocessing)
    inputs = preprocess(picture, backbone.preprocessing)[None]
    return next(iter(LoadedModel(imported.model).run({"image": inputs}).values()))[0]


@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 3)])
def test_pixels_are_features_divided_by_255(shape):
    parts = split(*shape)
    backbone = load_backbone(PIXELS, parts)
    expected = np.moveaxis(np.atleast_3d(parts.train.images[1]), -1, 0).astype(np.float32) / 255
    assert features(backbone, parts.train.picture(1)) == pytest.approx(expected.reshape(-1))


def test_the_features_of_digits_are_their_pixels():
    digits = split_digits(seed=0)
    backbone = load_backbone(PIXELS, digits)
    assert (backbone.preprocessing.mode, backbone.preprocessing.size) == ("L", (8, 8))
    row = features(backbone, digits.train.picture(0))
    assert np.allclose(row, digits.train.images[0].ravel() / 255)


def test_pixels_may_be_stretched_to_a_size():
    backbone = load_backbone(BackboneSettings(size=9), split(6, 5))
    assert backbone.preprocessing.size == (9, 9)
    assert backbone.preprocessing.interpolation == "bilinear"
    assert features(backbone, split(6, 5).train.picture(0)).shape == (81,)


def test_pictures_of_several_sizes_need_one(tmp_path: Path):
    draw_all(tmp_path, "a.png", "b.png")
    other = split(6, 6, 3).train
    names = (ClassName("eel"),)
    files = ImageFiles(tmp_path, ("a.png", "b.png"), np.zeros(2, int), names, FileDigests(tmp_path))
    with pytest.raises(BackboneError, match=r"backbone\.size: missing"):
        load_backbone(PIXELS, Split(files, other))
    stretched = load_backbone(BackboneSettings(size=8), Split(files, other))
    assert stretched.preprocessing.size == (8, 8)


def test_one_coloured_picture_makes_the_network_colour():
    grey, colour = split(6, 5).train, split(6, 5, 3).train
    assert load_backbone(PIXELS, Split(grey, colour)).preprocessing.mode == "RGB"


def test_a_scenario_names_layers_and_mirror_images_of_any_network():
    settings = BackboneSettings(
        network="mobilenet-v2", size=32, layers=("features.11", "features.16.conv.1"), mirror=True
    )
    picture = split(6, 5, 3).train.picture(0)
    backbone = load_backbone(settings, split(6, 5, 3))
    assert features(backbone, picture).shape == (96 + 960,)
    assert backbone.preprocessing.size == (32, 32)
    mirrored = load_backbone(BackboneSettings(mirror=True), split(6, 5))
    grey = split(6, 5).train
    both = (grey.images[0] + np.fliplr(grey.images[0]).astype(float)) / 2 / 255
    assert features(mirrored, grey.picture(0)) == pytest.approx(both.ravel())


def test_weights_of_mobilenet_are_read_without_torch(tmp_path: Path):
    path = tmp_path / "own.safetensors"
    settings = BackboneSettings(network="mobilenet-v2", size=32, weights=str(path))
    with pytest.raises(BackboneError, match=r"own\.safetensors: there is no such file; give"):
        load_backbone(settings, split(6, 5, 3))
    safetensors.numpy.save_file(random_weights(), path)
    unnamed = BackboneSettings(network="mobilenet-v2", size=32)
    parts = split(6, 5, 3)
    assert load_backbone(settings, parts).data == load_backbone(unnamed, parts).data


@pytest.mark.parametrize("ending", [".json", ".toml"])
def test_a_file_is_read_with_what_lies_beside_it(ending: str, tmp_path: Path):
    (tmp_path / "own.onnx").write_bytes(data(pooled_network()))
    texts = {".json": COLOUR.model_dump_json(), ".toml": preprocessing_toml(COLOUR)}
    (tmp_path / f"own{ending}").write_text(texts[ending])
    settings = BackboneSettings(network="file", file=str(tmp_path / "own.onnx"))
    backbone = load_backbone(settings, split(6, 5, 3))
    assert backbone.name == "own"
    assert backbone.preprocessing == COLOUR
    assert features(backbone, split(6, 5, 3).train.picture(0)).shape == (WIDTH,)


def test_what_a_file_lacks_is_told(tmp_path: Path):
    path = tmp_path / "own.onnx"
    settings = BackboneSettings(network="file", file=str(path))
    with pytest.raises(BackboneError, match=r"own\.onnx: cannot be read: No such file"):
        load_backbone(settings, split(6, 5))
    path.write_bytes(data(pooled_network()))
    with pytest.raises(BackboneError, match=r"put own\.json or own\.toml there"):
        load_backbone(settings, split(6, 5))
    path.with_suffix(".json").write_text("{}")
    with pytest.raises(PreprocessingFileError, match="mode"):
        load_backbone(settings, split(6, 5))


def test_a_size_that_a_file_has_not_is_refused(tmp_path: Path):
    (tmp_path / "own.onnx").write_bytes(data(pooled_network()))
    (tmp_path / "own.json").write_text(COLOUR.model_dump_json())
    settings = BackboneSettings(network="file", file=str(tmp_path / "own.onnx"), size=64)
    with pytest.raises(BackboneError, match=r"backbone\.size: 64"):
        load_backbone(settings, split(6, 5, 3))


@pytest.mark.torchvision
def test_a_network_of_torchvision_is_exported_once(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path))
    settings = BackboneSettings(network="torchvision", name="squeezenet1_1", size=32)
    first = load_backbone(settings, split(6, 5, 3))
    assert first.name == "squeezenet1_1"
    assert first.preprocessing.size == (32, 32)
    assert features(first, split(6, 5, 3).train.picture(0)).shape == (512,)
    from fleetledger.export import torchvision_backbone

    monkeypatch.delattr(torchvision_backbone, "export_torchvision")
    assert load_backbone(settings, split(6, 5, 3)) == first


@pytest.mark.torchvision
def test_weights_come_from_a_file(tmp_path: Path, monkeypatch):
    import torch

    from fleetledger.export.torchvision_network import torchvision_module

    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))
    torch.manual_seed(7)
    module = torchvision_module("models").get_model("squeezenet1_1", weights=None)
    torch.save(module.state_dict(), tmp_path / "own.pth")
    base = {"network": "torchvision", "name": "squeezenet1_1", "size": 32}
    random = load_backbone(BackboneSettings(**base), split(6, 5, 3))
    given = BackboneSettings(**base, weights=str(tmp_path / "own.pth"))
    own = load_backbone(given, split(6, 5, 3))
    picture = split(6, 5, 3).train.picture(0)
    assert not np.allclose(features(own, picture), features(random, picture))
    assert own.in_torch is not None
    with torch.no_grad():
        by_torch = own.in_torch()(torch.from_numpy(preprocess(picture, own.preprocessing)[None]))
    assert by_torch[0].numpy() == pytest.approx(features(own, picture), rel=1e-4, abs=1e-4)


@pytest.mark.torchvision
@pytest.mark.parametrize(
    ("weights", "told"),
    [
        ("none/such.pth", "there is no such file"),
        ("IMAGENET9", "give one of IMAGENET1K_V1"),
        ("IMAGENET1K_V1", r"is expected at .*checkpoints/squeezenet1_1.*load_state_dict_from_url"),
    ],
)
def test_weights_that_are_not_there_are_told(weights: str, told: str, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    settings = BackboneSettings(network="torchvision", name="squeezenet1_1", weights=weights)
    with pytest.raises(BackboneError, match=told):
        load_backbone(settings, split(6, 5, 3))


@pytest.mark.torchvision
def test_published_weights_are_taken_from_where_torch_keeps_them(tmp_path: Path, monkeypatch):
    import torch

    from fleetledger.export.torchvision_network import torchvision_module

    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    models = torchvision_module("models")
    url = models.get_model_weights("squeezenet1_1")["IMAGENET1K_V1"].url
    place = tmp_path / "hub" / "checkpoints" / url.rpartition("/")[2]
    place.parent.mkdir(parents=True)
    torch.save(models.get_model("squeezenet1_1", weights=None).state_dict(), place)
    settings = BackboneSettings(
        network="torchvision", name="squeezenet1_1", weights="IMAGENET1K_V1", size=32
    )
    assert load_backbone(settings, split(6, 5, 3)).preprocessing.size == (32, 32)


def test_without_torch_the_command_is_told():
    program = """
import sys
sys.modules["torch"] = None
import importlib.metadata
real = importlib.metadata.version
def version(package):
    if package == "torch":
        raise importlib.metadata.PackageNotFoundError(package)
    return real(package)
importlib.metadata.version = version
from fleetledger.simulator.backbones.from_torchvision import torchvision_backbone
from fleetledger.simulator.errors import BackboneError
for weights in (None, "IMAGENET1K_V1"):
    try:
        torchvision_backbone("mobilenet_v2", weights, None)
    except BackboneError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.count(pip_install("train")) == 2
