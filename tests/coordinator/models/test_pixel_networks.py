"""A fleet begins with a network that gives every pixel a class, and gets it as a model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from fleetledger.coordinator.core.work import ExportHead
from fleetledger.coordinator.errors import NetworkSettingsError
from fleetledger.coordinator.ledger.blobs import BlobStore
from fleetledger.coordinator.models.file_offers import offer_of
from fleetledger.coordinator.models.first_files import FirstFiles
from fleetledger.coordinator.models.network_maker import pack_network
from fleetledger.coordinator.models.networks import prepare_network
from fleetledger.coordinator.paths import blob_folder
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.models.entries import ModelSolved
from fleetledger.export.errors import ModelFileError
from fleetledger.export.package import ExportedModel
from fleetledger.export.runtime import LoadedModel
from fleetledger.learning.errors import NetworkError
from fleetledger.learning.networks.plan import initial_arrays
from fleetledger.learning.networks.segmentation.registry import build_segmentation
from fleetledger.methods.errors import ContributionError
from fleetledger.methods.training.network_weights import decode_weights, encode_weights
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.pip_command import pip_install
from fleetledger.schemas.models import FEATURES, SCORES
from fleetledger.schemas.values import ClassName, Digest
from tests.coordinator.models.dense_rounds import SCENES, let_rounds_segment, scenes_home

SMALL = build_segmentation("small_dense", SCENES.shape)
NAMES = (ClassName("cat"), ClassName("dog"))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The preprocessing in the home of a fleet that learns the classes of pixels."""
    let_rounds_segment(monkeypatch)
    return scenes_home(tmp_path)


def arrays_of(home: Path, made: NetworkImported) -> tuple[dict[str, Any], tuple[str, ...]]:
    return decode_weights(BlobStore(blob_folder(home)).get(made.weights.digest), SMALL)


def trunk_file(path: Path, seed: int = 5, **changes: Any) -> Path:
    """Write a trunk as networks for whole pictures have it: without the prefix of dense ones."""
    plans = SMALL.body.trunk.plan()
    arrays = {
        name.removeprefix("backbone."): array for name, array in initial_arrays(plans, seed).items()
    }
    safetensors.numpy.save_file({**arrays, **changes}, path)
    return path


def test_the_first_weights_know_the_background_alone(file: Path) -> None:
    made = prepare_network(file.parent, file)
    assert made.segments
    assert (made.base, made.backbone, made.class_names) == (None, None, ())
    arrays, names = arrays_of(file.parent, made)
    assert names == ()
    assert arrays["head.weight"].shape == (1, SMALL.width)
    golden = safetensors.numpy.load(BlobStore(blob_folder(file.parent)).get(made.golden.digest))
    assert {name: array.shape for name, array in golden.items()} == {"inputs": (2, *SCENES.shape)}


def test_other_networks_do_not_segment(tmp_path: Path) -> None:
    assert not prepare_network(tmp_path, scenes_home(tmp_path)).segments


def test_weights_that_were_trained_elsewhere_may_lead(file: Path) -> None:
    first = file.parent / "first.safetensors"
    first.write_bytes(encode_weights(SMALL.initial(4, NAMES), NAMES))
    made = prepare_network(file.parent, file, first=FirstFiles(weights=first))
    assert made.class_names == NAMES
    assert arrays_of(file.parent, made)[0]["head.weight"].shape == (3, SMALL.width)


def test_what_cannot_give_pixels_a_class_is_refused(file: Path) -> None:
    home = file.parent
    with pytest.raises(NetworkSettingsError, match=r"backbone: .* leave --backbone out"):
        prepare_network(home, file, home / "pixels.onnx")
    with pytest.raises(NetworkSettingsError, match=r"weights: .* trunk goes with --trunk"):
        prepare_network(home, file, weights_file=home / "any.safetensors")
    other = home / "other.json"
    other.write_text(SCENES.model_copy(update={"layout": "NHWC"}).model_dump_json())
    with pytest.raises(NetworkSettingsError, match="networks take 'NCHW'"):
        prepare_network(home, other)
    other.write_text('{"mode": "text", "tokens": "bytes", "length": 8, "input_name": "tokens"}')
    with pytest.raises(NetworkSettingsError, match="gives pixels of pictures their classes"):
        prepare_network(home, other)


def test_pictures_whose_maps_would_fill_a_device_are_refused_at_once(file: Path) -> None:
    large = file.parent / "large.json"
    large.write_text(SCENES.model_copy(update={"size": (2400, 2400)}).model_dump_json())
    with pytest.raises(ModelFileError, match="give the network smaller pictures"):
        prepare_network(file.parent, large)
    assert not blob_folder(file.parent).exists()


def test_a_network_that_freezes_cannot_be_one_of_pixels(file: Path) -> None:
    toml = file.parent / "coordinator.toml"
    text = toml.read_text(encoding="utf-8").replace('name = "rounds"', 'name = "stsa"')
    text = text.replace('network = "mlp"\n', "")
    toml.write_text(f'{text}\n[first_stage.settings]\nnetwork = "mlp"\n', encoding="utf-8")
    with pytest.raises(NetworkSettingsError, match=r"first_stage.name: 'rounds' trains a network"):
        prepare_network(file.parent, file)


def test_first_weights_whose_features_are_no_numbers_are_refused_before_a_stage(file: Path) -> None:
    arrays = SMALL.initial(4, NAMES)
    arrays["classifier.conv.weight"] = np.full_like(arrays["classifier.conv.weight"], 3e38)
    first = file.parent / "first.safetensors"
    first.write_bytes(encode_weights(arrays, NAMES))
    with pytest.raises(ModelFileError, match="NaN or infinite features"):
        prepare_network(file.parent, file, first=FirstFiles(weights=first))
    assert not blob_folder(file.parent).exists()


@pytest.mark.torch
def test_a_trunk_from_a_file_begins_and_the_rest_is_the_seeds(file: Path) -> None:
    home = file.parent
    trunk = trunk_file(home / "trunk.safetensors")
    made = prepare_network(home, file, first=FirstFiles(trunk=trunk))
    plain = prepare_network(home, file)
    assert made.digest != plain.digest
    assert made.class_names == ()
    arrays, names = arrays_of(home, made)
    first, _ = arrays_of(home, plain)
    wanted = initial_arrays(SMALL.body.trunk.plan(), 5)
    assert names == ()
    assert set(arrays) == set(first)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, wanted.get(name, first[name]))
    assert made == prepare_network(home, file, first=FirstFiles(trunk=trunk))


@pytest.mark.torch
def test_a_file_that_is_not_of_the_trunk_is_refused(file: Path) -> None:
    home = file.parent
    for change, why in (
        ({"conv0.weight": np.zeros((1, 3, 3, 3), np.float32)}, r"is \(1, 3, 3, 3\), not"),
        ({"norm0.bias": np.full(16, np.nan, np.float32)}, "holds nan"),
    ):
        trunk = trunk_file(home / "trunk.safetensors", **change)
        with pytest.raises((NetworkError, SchemaError), match=why):
            prepare_network(home, file, first=FirstFiles(trunk=trunk))
    with pytest.raises(NetworkError, match="cannot be read"):
        prepare_network(home, file, first=FirstFiles(trunk=home / "gone.safetensors"))


def test_a_trunk_has_no_place_beside_first_weights_or_in_another_network(tmp_path: Path) -> None:
    file = scenes_home(tmp_path)
    with pytest.raises(NetworkSettingsError, match="leave --trunk out"):
        prepare_network(tmp_path, file, first=FirstFiles(trunk=tmp_path / "trunk.pth"))
    both = FirstFiles(weights=tmp_path / "first", trunk=tmp_path / "trunk.pth")
    with pytest.raises(NetworkSettingsError, match="leave --trunk or --first-weights out"):
        prepare_network(tmp_path, file, first=both)


def test_a_trunk_without_torch_is_told_what_to_install(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetledger.coordinator.models.pixel_networks.find_spec", lambda _: None)
    with pytest.raises(NetworkSettingsError, match=re.escape(pip_install("train"))):
        prepare_network(file.parent, file, first=FirstFiles(trunk=file.parent / "trunk.pth"))


def packed(home: Path, made: NetworkImported, weights: bytes) -> ExportedModel:
    """Pack weights with rows of `NAMES`, as the coordinator does after a stage."""
    store = BlobStore(blob_folder(home))
    store.put(weights)
    solved = ModelSolved(
        version=2,
        lineage=made.digest,
        ledger_size=8,
        contributions=1,
        weights_index=7,
        class_names=NAMES,
        aggregate=Digest.of(b"sum"),
        head=offer_of(weights).digest,
        method="rounds",
        fingerprint={},
        seconds=0.1,
    )
    return pack_network(ExportHead(solved, 9, 5, made), made, store)  # type: ignore[arg-type]


def run(model: ExportedModel, images: np.ndarray) -> np.ndarray:
    """Return what the files of a model make of pictures, as a device runs them."""
    manifest = model.manifest
    features = LoadedModel(model.files[manifest.frozen.digest]).run({"image": images})[FEATURES]
    return LoadedModel(model.files[manifest.head.digest]).run({FEATURES: features})[SCORES]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.torch
def test_weights_become_a_model_that_gives_pixels_torchs_scores(file: Path, count: int) -> None:
    import torch

    from fleetledger.learning.networks.conversion import to_tensors
    from fleetledger.learning.networks.segmentation.torch_layers import DensePass
    from fleetledger.learning.networks.torch_layers import Mode

    weights = encode_weights(SMALL.initial(3, NAMES), NAMES)
    model = packed(file.parent, prepare_network(file.parent, file), weights)
    images = np.random.default_rng(count).normal(size=(count, *SCENES.shape)).astype(np.float32)
    tensors = to_tensors(decode_weights(weights, SMALL)[0])
    with torch.no_grad():
        expected, _ = DensePass(SMALL)(*tensors, torch.from_numpy(images), Mode())
    found = run(model, images)
    assert found.shape == (count, 3, *SCENES.size)
    np.testing.assert_allclose(found, expected.logits.numpy(), atol=1e-4)


def test_a_model_of_pixels_names_the_background_first_and_shares_its_golden_batch(
    file: Path,
) -> None:
    made = prepare_network(file.parent, file)
    weights = encode_weights(SMALL.initial(3, NAMES), NAMES)
    model = packed(file.parent, made, weights)
    assert model.manifest.answers == "pixels"
    assert model.manifest.class_names == ("background", *NAMES)
    assert model.manifest.golden.digest == made.golden.digest
    assert model == packed(file.parent, made, weights)
    other = packed(file.parent, made, encode_weights(SMALL.initial(4, NAMES), NAMES))
    assert other.manifest.golden == model.manifest.golden
    assert other.manifest.head != model.manifest.head


def test_weights_with_other_rows_than_the_models_classes_are_refused(file: Path) -> None:
    made = prepare_network(file.parent, file)
    with pytest.raises(ModelFileError, match=r"\(2, 48\) for 3 class names"):
        packed(file.parent, made, encode_weights(SMALL.initial(3, NAMES[:1]), NAMES[:1]))


@pytest.mark.parametrize("rows", [1, 4, 1 << 12])
def test_weights_whose_rows_are_not_those_they_name_are_refused(file: Path, rows: int) -> None:
    made = prepare_network(file.parent, file)
    arrays = SMALL.initial(3, NAMES)
    arrays["head.weight"] = np.zeros((rows, SMALL.width), np.float32)
    arrays["head.bias"] = np.zeros(rows, np.float32)
    with pytest.raises(ContributionError, match=r"head\.(bias|weight)"):
        packed(file.parent, made, encode_weights(arrays, NAMES))
