"""Weights come from torch's files and safetensors, and fit a network entirely or not at all."""

import re
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from fleetledger.export.errors import WeightsError
from fleetledger.export.torchvision_network import FeatureNetwork, build_network
from fleetledger.export.torchvision_weights import load_weights
from fleetledger.export.weights_file import read_weights

pytestmark = pytest.mark.torchvision
NAME = "squeezenet1_1"
SIZE = 32


def state_of(network: FeatureNetwork) -> dict[str, torch.Tensor]:
    return dict(network.module.state_dict())


def saved(folder: Path, content: Any, name: str = "weights.pth") -> Path:
    path = folder / name
    if path.suffix == ".safetensors":
        safetensors.torch.save_file(content, path)
    else:
        torch.save(content, path)
    return path


def filled(path: Path, name: str = NAME, size: int = SIZE) -> dict[str, torch.Tensor]:
    """The weights of another seed after loading the file."""
    network = build_network(name, size, seed=9)
    load_weights(network, path)
    return state_of(network)


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def tiny_transformer(size: int, seed: int) -> FeatureNetwork:
    build_network(NAME, SIZE)
    from torchvision.models import VisionTransformer

    torch.manual_seed(seed)
    module = VisionTransformer(size, 16, 1, 2, 8, 16).eval()
    nn.init.normal_(module.encoder.pos_embedding)
    module.heads = nn.Identity()  # type: ignore[assignment]
    return FeatureNetwork("vit_tiny", size, module, "heads")


@pytest.mark.parametrize("file", ["w.pth", "w.pt", "w.safetensors"])
def test_a_state_dict_is_read_from_every_kind_of_file(tmp_path: Path, file: str) -> None:
    state = state_of(build_network(NAME, SIZE))
    assert same(filled(saved(tmp_path, state, file)), state)


def test_the_whole_state_with_its_layer_versions_is_read(tmp_path: Path) -> None:
    network = build_network("mnasnet0_5", SIZE)
    for state in (network.module.state_dict(), state_of(network)):  # with versions and without
        assert same(filled(saved(tmp_path, state), "mnasnet0_5"), state_of(network))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floating_point_types_become_float32(tmp_path: Path, kind: torch.dtype) -> None:
    state = {name: tensor.to(kind) for name, tensor in state_of(build_network(NAME, SIZE)).items()}
    path = saved(tmp_path, state, "w.safetensors")
    loaded = filled(path)
    assert same(loaded, {name: tensor.float() for name, tensor in state.items()})
    assert {tensor.dtype for tensor in read_weights(path).values()} == {torch.float32}


def test_any_classifier_may_be_in_the_file(tmp_path: Path) -> None:
    state = state_of(build_network("resnet18", SIZE))
    others = {
        "fc.weight": torch.ones(7, 512),
        "fc.bias": torch.ones(7),
        "fc.1.weight": torch.ones(1),
    }
    assert same(filled(saved(tmp_path, state | others), "resnet18"), state)


def test_what_of_the_classifier_is_kept_must_be_in_the_file(tmp_path: Path) -> None:
    state = state_of(build_network("convnext_tiny", SIZE))
    norm = {name for name in state if name.startswith("classifier.")}
    assert norm == {"classifier.0.weight", "classifier.0.bias"}
    without = {name: tensor for name, tensor in state.items() if name not in norm}
    with pytest.raises(WeightsError, match=r"missing \(2\): classifier\.0\.weight"):
        filled(saved(tmp_path, without), "convnext_tiny")


def test_counters_of_batch_norm_may_be_absent_as_in_old_files(tmp_path: Path) -> None:
    state = state_of(build_network("mobilenet_v3_small", SIZE))
    old = {name: tensor for name, tensor in state.items() if "num_batches" not in name}
    assert len(old) < len(state)
    assert same(filled(saved(tmp_path, old), "mobilenet_v3_small"), state)


def test_the_old_names_of_densenet_are_understood(tmp_path: Path) -> None:
    state = state_of(build_network("densenet121", SIZE))
    old = {re.sub(r"(denselayer\d+\.(?:norm|conv))", r"\1.", name): state[name] for name in state}
    assert "features.denseblock1.denselayer1.norm.1.weight" in old
    assert same(filled(saved(tmp_path, old), "densenet121"), state)


def test_positions_of_a_transformer_are_interpolated_to_the_size(tmp_path: Path) -> None:
    large, small = tiny_transformer(64, 1), tiny_transformer(32, 2)
    load_weights(small, saved(tmp_path, state_of(large)))
    given, got = state_of(large), state_of(small)
    name = "encoder.pos_embedding"
    assert got[name].shape == (1, 1 + 2 * 2, 8)
    assert torch.equal(got[name][:, 0], given[name][:, 0])  # the class token has no place
    # Corners stay corners: first and last of the 4 x 4 grid become those of the 2 x 2 grid.
    torch.testing.assert_close(got[name][:, [1, 2, 3, 4]], given[name][:, [1, 4, 13, 16]])
    assert all(torch.equal(got[other], given[other]) for other in got if other != name)


def test_positions_that_are_no_square_grid_are_refused_by_name(tmp_path: Path) -> None:
    network = tiny_transformer(32, 1)
    state = state_of(network) | {"encoder.pos_embedding": torch.zeros(1, 4, 8)}
    with pytest.raises(WeightsError, match=r"encoder\.pos_embedding float32 \(1, 4, 8\) for"):
        load_weights(network, saved(tmp_path, state))


def test_what_does_not_fit_is_listed_by_name(tmp_path: Path) -> None:
    state = state_of(build_network(NAME, SIZE))
    first, second, third, *_ = state
    del state[first]
    state["extra.weight"] = torch.ones(1)
    state[second] = torch.ones(2, 3)
    state[third] = torch.ones(state[third].shape, dtype=torch.int8)
    with pytest.raises(WeightsError) as refused:
        filled(saved(tmp_path, state))
    text = str(refused.value)
    assert f"weights.pth does not fit {NAME}: " in text
    assert f"missing (1): {first};" in text
    assert "unknown (1): extra.weight;" in text
    assert f"of another shape or type (2): {second} float32 (2, 3) for float32 (64,), " in text
    assert f"{third} int8 " in text
    assert f"give the state dict of torchvision's {NAME}" in text


def test_of_many_names_the_first_are_listed_and_the_rest_counted(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"missing \(50\): features\.0\.weight.* and 42 more"):
        filled(saved(tmp_path, {"other": torch.ones(1)}))


def test_what_is_no_state_dict_is_refused_with_a_way_out(tmp_path: Path) -> None:
    state = state_of(build_network(NAME, SIZE))
    with pytest.raises(WeightsError, match=r"holds more than tensors: model, epoch; save the"):
        filled(saved(tmp_path, {"model": state, "epoch": 3}))
    with pytest.raises(WeightsError, match=r"holds a Tensor; save the network's state_dict\(\)"):
        filled(saved(tmp_path, torch.ones(3)))


def test_a_file_with_code_is_refused_and_not_run(tmp_path: Path) -> None:
    path = saved(tmp_path, build_network(NAME, SIZE).module)
    with pytest.raises(WeightsError, match=r"damaged or holds more than tensors \(Unpick") as told:
        filled(path)
    assert "weights_only" not in str(told.value)


@pytest.mark.parametrize("file", ["w.pth", "w.safetensors"])
def test_a_torn_file_is_refused(tmp_path: Path, file: str) -> None:
    path = saved(tmp_path, state_of(build_network(NAME, SIZE)), file)
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(WeightsError, match=rf"{re.escape(file)} is damaged"):
        filled(path)


def test_a_file_that_is_not_there_or_of_another_kind_is_told(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"gone\.pth cannot be read: No such file"):
        filled(tmp_path / "gone.pth")
    with pytest.raises(WeightsError, match=r"gone\.safetensors cannot be read: No such file"):
        filled(tmp_path / "gone.safetensors")
    with pytest.raises(WeightsError, match=r"ending '\.h5' .* ends in \.pt, \.pth, \.safetensors"):
        filled(tmp_path / "a.h5")
