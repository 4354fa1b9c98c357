"""The network that a fleet begins with: on pictures, or on the features of a frozen backbone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from fleetledger.coordinator.errors import NetworkSettingsError
from fleetledger.coordinator.ledger.blobs import BlobStore
from fleetledger.coordinator.models import networks
from fleetledger.coordinator.models.networks import prepare_network
from fleetledger.coordinator.paths import blob_folder
from fleetledger.export.errors import ModelFileError
from fleetledger.export.golden import read_golden
from fleetledger.export.runtime import LoadedModel
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.plan import initial_arrays
from fleetledger.learning.networks.registry import NETWORKS, KnownNetwork, build_network
from fleetledger.methods.errors import MethodError
from fleetledger.methods.registry import descriptor
from fleetledger.methods.rounds.assignment import RoundsAssignment
from fleetledger.methods.training.network_weights import decode_base, decode_weights
from fleetledger.schemas.arrays import ArrayPreprocessing
from fleetledger.schemas.models import FEATURES
from tests.coordinator.shell_harness import write_home
from tests.export.networks import COLOUR, convolution, data, network, value
from tests.export.test_network import TINY_VIT

FEATURES_OF_PIXELS = 16
SQUARE = COLOUR.model_copy(update={"size": (16, 16)})


def home(folder: Path, method: str = "rounds", **settings: object) -> Path:
    write_home(folder, method, **settings)
    return folder


def test_a_network_on_features_begins_with_the_backbone_and_a_golden_batch(tmp_path: Path) -> None:
    home(tmp_path, network="mlp")
    made = prepare_network(tmp_path, tmp_path / "pixels.json", tmp_path / "pixels.onnx")
    assert made.backbone is not None
    assert (made.backbone.name, made.backbone.feature_width) == ("pixels", FEATURES_OF_PIXELS)
    assert made.settings["input_shape"] == [FEATURES_OF_PIXELS]
    store = BlobStore(blob_folder(tmp_path))
    assert all(store.has(digest) for digest in made.blobs)
    assert made.backbone.frozen.digest in made.blobs
    golden = read_golden(store.get(made.golden.digest))
    frozen = LoadedModel(store.get(made.backbone.frozen.digest))
    found = frozen.run({"image": golden.inputs})[FEATURES]
    assert (found == golden.features).all()
    weights = store.get(made.weights.digest)
    arrays, names = decode_weights(weights, build_network("mlp", (FEATURES_OF_PIXELS,)))
    assert names == ()
    assert arrays["linear0.weight"].shape[1] == FEATURES_OF_PIXELS


@pytest.mark.parametrize("wanted", [False, True])
def test_what_the_method_wants_beside_rounds_stands_with_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: bool
) -> None:
    home(tmp_path, network="mlp")
    plain = prepare_network(tmp_path, tmp_path / "pixels.json")
    assert (plain.observes, plain.proxy) == (False, False)
    able = replace(descriptor("rounds"), observes=True, proxy=True)
    monkeypatch.setattr(networks, "descriptor", lambda _: able)
    monkeypatch.setattr(RoundsAssignment, "everybody_observes", wanted, raising=False)
    monkeypatch.setattr(RoundsAssignment, "has_proxy", wanted, raising=False)
    made = prepare_network(tmp_path, tmp_path / "pixels.json")
    assert (made.observes, made.proxy) == (wanted, wanted)


def test_the_same_files_and_settings_begin_the_same_lineage(tmp_path: Path) -> None:
    home(tmp_path, network="mlp")
    files = (tmp_path / "pixels.json", tmp_path / "pixels.onnx")
    assert prepare_network(tmp_path, *files) == prepare_network(tmp_path, *files)


def test_a_feature_map_is_pooled_where_that_is_asked_for(tmp_path: Path) -> None:
    home(tmp_path, network="mlp")
    model = network(convolution(), value("map", ["batch", 7, 12, 10]))
    (tmp_path / "map.onnx").write_bytes(data(model))
    (tmp_path / "colour.json").write_text(COLOUR.model_dump_json())
    files = (tmp_path / "colour.json", tmp_path / "map.onnx")
    made = prepare_network(tmp_path, *files, pool=True)
    assert made.backbone is not None
    assert made.backbone.feature_width == 7
    with pytest.raises(ModelFileError, match="give --pool"):
        prepare_network(tmp_path, *files)


def test_without_a_backbone_the_network_sees_the_pictures(tmp_path: Path) -> None:
    made = prepare_network(home(tmp_path, network="mlp"), tmp_path / "pixels.json")
    assert made.backbone is None
    assert made.settings["input_shape"] == [1, 4, 4]


def test_a_method_on_features_without_a_backbone_is_told_the_command(tmp_path: Path) -> None:
    home(tmp_path, "fedhaf")
    with pytest.raises(NetworkSettingsError, match=r"'fedhaf' .* --backbone FILE\.onnx"):
        prepare_network(tmp_path, tmp_path / "pixels.json")


@pytest.mark.parametrize("name", ["convnet", "resnet8", "resnet18", "vit_b_16"])
def test_a_network_of_pictures_is_refused_on_features(tmp_path: Path, name: str) -> None:
    home(tmp_path, network=name)
    with pytest.raises(MethodError, match=f"'{name}' cannot take the 16 features of a frozen"):
        prepare_network(tmp_path, tmp_path / "pixels.json", tmp_path / "pixels.onnx")


def test_a_first_stage_has_no_place_for_a_backbone(tmp_path: Path) -> None:
    home(tmp_path, "stsa")
    with (tmp_path / "coordinator.toml").open("a", encoding="utf-8") as file:
        file.write('\n[first_stage.settings]\nnetwork = "mlp"\n')
    with pytest.raises(NetworkSettingsError, match=r"\[first_stage\] trains a network on pictures"):
        prepare_network(tmp_path, tmp_path / "pixels.json", tmp_path / "pixels.onnx")


def test_pooling_without_a_backbone_makes_no_sense(tmp_path: Path) -> None:
    with pytest.raises(NetworkSettingsError, match="give --backbone with it"):
        prepare_network(home(tmp_path, network="mlp"), tmp_path / "pixels.json", pool=True)


@pytest.mark.torch
def test_a_network_of_adapters_begins_with_the_file_of_what_nobody_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(NETWORKS._own, "tiny", KnownNetwork(lambda _shape: TINY_VIT))
    home(tmp_path, network="tiny")
    (tmp_path / "colour.json").write_text(SQUARE.model_dump_json(), encoding="utf-8")
    arrays = initial_arrays(TINY_VIT.base_plan(), 5)
    head = {"heads.head.weight": np.ones((2, 12), np.float32)}
    safetensors.numpy.save_file({**arrays, **head}, tmp_path / "base.safetensors")
    made = prepare_network(
        tmp_path, tmp_path / "colour.json", weights_file=tmp_path / "base.safetensors"
    )
    assert made.base is not None
    assert made.base.digest in made.blobs
    kept = decode_base(BlobStore(blob_folder(tmp_path)).get(made.base.digest), Network(TINY_VIT))
    assert set(kept) == set(arrays), "a classifier in the file has no part in it"
    assert all((kept[name] == array).all() for name, array in arrays.items())


def test_a_network_of_adapters_without_its_file_is_told_the_option(tmp_path: Path) -> None:
    home(tmp_path, network="vit_b_16")
    picture = SQUARE.model_copy(update={"size": (32, 32)})
    (tmp_path / "colour.json").write_text(picture.model_dump_json(), encoding="utf-8")
    with pytest.raises(NetworkSettingsError, match=r"of 'vit_b_16' a part .* --weights FILE"):
        prepare_network(tmp_path, tmp_path / "colour.json")


def test_a_file_of_weights_has_no_place_where_all_is_trained(tmp_path: Path) -> None:
    home(tmp_path, network="mlp")
    with pytest.raises(NetworkSettingsError, match="'mlp' is trained whole"):
        prepare_network(
            tmp_path, tmp_path / "pixels.json", weights_file=tmp_path / "base.safetensors"
        )


def test_files_that_are_no_backbone_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    home(tmp_path, network="mlp")
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises(ModelFileError, match="are no ONNX model"):
        prepare_network(tmp_path, tmp_path / "pixels.json", tmp_path / "text.onnx")
    with pytest.raises(ModelFileError, match=r"gone\.onnx: cannot be read"):
        prepare_network(tmp_path, tmp_path / "pixels.json", tmp_path / "gone.onnx")
    assert not blob_folder(tmp_path).exists()


def of_windows(folder: Path, shape: tuple[int, ...] = (3, 8)) -> Path:
    path = folder / "windows.json"
    spec = ArrayPreprocessing(mode="array", shape=shape, input_name="window")
    path.write_text(spec.model_dump_json())
    return path


@pytest.mark.parametrize("shape", [(7,), (3, 8), (2, 3, 4, 5)])
def test_a_network_is_trained_on_arrays_of_any_rank(tmp_path: Path, shape: tuple[int, ...]) -> None:
    made = prepare_network(home(tmp_path, network="mlp"), of_windows(tmp_path, shape))
    assert made.settings["input_shape"] == list(shape)
    assert made.preprocessing.shape == shape


@pytest.mark.parametrize(
    ("method", "settings", "shape", "error", "words"),
    [
        ("rounds", {"network": "convnet"}, (3, 8), MethodError, "'convnet' cannot take arrays of"),
        (
            "rounds",
            {"network": "mlp", "flip": True},
            (3, 8, 8),
            NetworkSettingsError,
            "flip: True changes pictures, and the samples are arrays; leave it out",
        ),
        ("lga", {}, (3, 32, 32), NetworkSettingsError, "'lga' trains on pictures alone"),
    ],
)
def test_what_is_for_pictures_alone_is_refused_on_arrays(
    tmp_path: Path,
    method: str,
    settings: dict[str, object],
    shape: tuple[int, ...],
    error: type[Exception],
    words: str,
) -> None:
    home(tmp_path, method, **settings)
    with pytest.raises(error, match=words):
        prepare_network(tmp_path, of_windows(tmp_path, shape))
