"""Weights of vision transformers under timm's names, and at another size of picture."""

from __future__ import annotations

from pathlib import Path

import pytest
import safetensors.torch
import torch

from fleetledger.learning.errors import NetworkError
from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.plan import initial_arrays
from fleetledger.learning.networks.vision_transformer import VisionTransformer
from fleetledger.learning.networks.weights_file import read_tensors
from tests.learning.networks.reference import torchvision_module

pytestmark = pytest.mark.torch

TINY = VisionTransformer(16, 4, width=12, blocks=2, heads=3, hidden=20, adapter=5)
BASE = to_tensors(initial_arrays(TINY.base_plan(), 3))[0]
OF_TIMM = {
    "class_token": "cls_token",
    "encoder.pos_embedding": "pos_embed",
    "conv_proj": "patch_embed.proj",
    "encoder.ln": "norm",
}
OF_BLOCK = {
    "ln_1.": "norm1.",
    "ln_2.": "norm2.",
    "self_attention.in_proj_": "attn.qkv.",
    "self_attention.out_proj.": "attn.proj.",
    "mlp.0.": "mlp.fc1.",
    "mlp.3.": "mlp.fc2.",
}
"""As `timm.models.vision_transformer` has them, version 1.0.31."""


def of_timm(name: str) -> str:
    """Return timm's name of a tensor that torchvision calls `name`."""
    for ours, theirs in OF_TIMM.items():
        if name == ours or name.startswith(f"{ours}."):
            return name.replace(ours, theirs)
    number, _, rest = name.removeprefix("encoder.layers.encoder_layer_").partition(".")
    for ours, theirs in OF_BLOCK.items():
        rest = rest.replace(ours, theirs)
    return f"blocks.{number}.{rest}"


def test_weights_of_timm_are_read_as_those_of_torchvision(tmp_path: Path) -> None:
    content = {of_timm(name): value for name, value in BASE.items()}
    assert len(content) == 4 + 2 * 12 + 2
    safetensors.torch.save_file(
        {**content, "head.weight": torch.ones(5, 12)}, tmp_path / "w.safetensors"
    )
    read = read_tensors(tmp_path / "w.safetensors", TINY.base_plan())
    assert read.keys() == BASE.keys()
    assert all(torch.equal(read[name], BASE[name]) for name in BASE)


def test_positions_are_brought_to_another_size_as_torchvision_does_it(tmp_path: Path) -> None:
    larger = VisionTransformer(28, 4, width=12, blocks=2, heads=3, hidden=20, adapter=5)
    file = tmp_path / "w.safetensors"
    safetensors.torch.save_file(BASE, file)
    read = read_tensors(file, larger.base_plan())["encoder.pos_embedding"]
    models = torchvision_module("models.vision_transformer")
    theirs = models.interpolate_embeddings(28, 4, dict(BASE))["encoder.pos_embedding"]
    assert torch.equal(read, theirs)


def test_positions_of_no_square_fit_nothing(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    torn = BASE["encoder.pos_embedding"][:, :-1].contiguous()
    safetensors.torch.save_file({**BASE, "encoder.pos_embedding": torn}, file)
    with pytest.raises(NetworkError, match=r"'encoder\.pos_embedding' in .* is \(1, 16, 12\)"):
        read_tensors(file, TINY.base_plan())
