"""A vision transformer (Dosovitskiy et al., ICLR 2021), trained by adapters or LoRA alone.

Tensors have torchvision's names. Beside the MLP of every block, on the block's residual stream x,
stands an adapter (section 3 of STSA; AdaptFormer, Chen et al., NeurIPS 2022):

    x + MLP(LN(x)) + s * dropout(relu(x W_down + b)) W_up + b'

W_down (768 x 64) starts Kaiming-uniform, W_up and both biases at zero, so the network starts as it
was trained before. s = 0.1, dropout 0.1. (The released program scales b' too, which is the same
with another learning rate for b'.)

With `lora` there are no adapters; queries and values get an update of low rank (Hu et al., ICLR
2022; in a fleet's first task as PILoRA has it, Guo et al., ECCV 2024):

    q = LN(x) W_q + LN(x) A_q B_q,    v = LN(x) W_v + LN(x) A_v B_v

A (768 x r) starts Kaiming-uniform, B at zero.

The base is frozen: it is not in `plan`, comes from a file, and is given as the frozen part `fixed`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

from fleetledger.learning.networks.body import Layers, V
from fleetledger.learning.networks.plan import TensorPlan


@dataclass(frozen=True)
class VisionTransformer:
    """The encoder on pictures (n, 3, side, side), `side` a multiple of `patch`."""

    side: int = 224
    patch: int = 16
    width: int = 768
    blocks: int = 12
    heads: int = 12
    hidden: int = 3072
    adapter: int = 64
    lora: int = 0
    """Rank of the updates of queries and values, in the place of adapters; 0: adapters."""
    scale: float = 0.1
    dropout: float = 0.1

    @property
    def stackable(self) -> bool:
        """One agent's batch fills a device: agents train one after another."""
        return False

    def plan(self) -> Sequence[TensorPlan]:
        """Return the adapters or updates: all of the body that is trained, averaged and sent."""
        plans: list[TensorPlan] = []
        for name in self._block_names():
            if self.lora:
                plans += self._low_rank_plan(name)
                continue
            plans += [
                TensorPlan(
                    f"{name}.adapter.down.weight",
                    (self.adapter, self.width),
                    # Kaiming-uniform with a = sqrt(5), as in the released program.
                    1 / sqrt(self.width),
                ),
                TensorPlan(f"{name}.adapter.down.bias", (self.adapter,)),
                TensorPlan(f"{name}.adapter.up.weight", (self.width, self.adapter)),
                TensorPlan(f"{name}.adapter.up.bias", (self.width,)),
            ]
        return plans

    def base_plan(self) -> Sequence[TensorPlan]:
        """Return the frozen tensors, with first values that serve tests only."""
        patches = (self.side // self.patch) ** 2
        pixels = 3 * self.patch**2
        plans = [
            TensorPlan("class_token", (1, 1, self.width), 0.02),
            TensorPlan("conv_proj.weight", (self.width, 3, self.patch, self.patch), pixels**-0.5),
            TensorPlan("conv_proj.bias", (self.width,)),
            TensorPlan("encoder.pos_embedding", (1, patches + 1, self.width), 0.02),
        ]
        for name in self._block_names():
            plans += self._block_plan(name)
        return plans + _norm_plan("encoder.ln", self.width)

    def features(self, layers: Layers[V], inputs: V) -> V:
        """Return the class token (n, width) behind the last normalisation."""
        values = layers.patches("conv_proj", inputs)
        values = layers.positions("class_token", "encoder.pos_embedding", values)
        for number, name in enumerate(self._block_names()):
            values = self._block(layers, name, number, values)
        return layers.first_token(layers.layer_norm("encoder.ln", values))

    def _block(self, layers: Layers[V], name: str, number: int, values: V) -> V:
        normalised = layers.layer_norm(f"{name}.ln_1", values)
        beside = self._low_rank(layers, name, normalised) if self.lora else None
        attended = layers.attention(f"{name}.self_attention", normalised, self.heads, beside)
        stream = layers.add(values, attended)
        inner = layers.linear(f"{name}.mlp.0", layers.layer_norm(f"{name}.ln_2", stream))
        inner = layers.linear(f"{name}.mlp.3", layers.gelu(inner))
        passed = layers.add(stream, inner)
        if self.lora:
            return passed
        return layers.add(passed, self._adapter(layers, f"{name}.adapter", number, stream))

    def _low_rank(self, layers: Layers[V], name: str, values: V) -> tuple[V, V]:
        """Return what is added to queries and to values, each (n, t, width)."""
        queries, gathered = (
            layers.linear(f"{lora}.up", layers.linear(f"{lora}.down", values))
            for lora in _low_rank_names(name)
        )
        return queries, gathered

    def _adapter(self, layers: Layers[V], name: str, number: int, stream: V) -> V:
        down = layers.relu(layers.linear(f"{name}.down", stream))
        down = layers.scale(layers.dropout(down, self.dropout, number), self.scale)
        return layers.linear(f"{name}.up", down)

    def _low_rank_plan(self, name: str) -> Iterator[TensorPlan]:
        for lora in _low_rank_names(name):
            yield TensorPlan(f"{lora}.down.weight", (self.lora, self.width), 1 / sqrt(self.width))
            yield TensorPlan(f"{lora}.up.weight", (self.width, self.lora))

    def _block_names(self) -> list[str]:
        return [f"encoder.layers.encoder_layer_{number}" for number in range(self.blocks)]

    def _block_plan(self, name: str) -> list[TensorPlan]:
        width, hidden = self.width, self.hidden
        return [
            *_norm_plan(f"{name}.ln_1", width),
            TensorPlan(f"{name}.self_attention.in_proj_weight", (3 * width, width), width**-0.5),
            TensorPlan(f"{name}.self_attention.in_proj_bias", (3 * width,)),
            TensorPlan(f"{name}.self_attention.out_proj.weight", (width, width), width**-0.5),
            TensorPlan(f"{name}.self_attention.out_proj.bias", (width,)),
            *_norm_plan(f"{name}.ln_2", width),
            TensorPlan(f"{name}.mlp.0.weight", (hidden, width), width**-0.5),
            TensorPlan(f"{name}.mlp.0.bias", (hidden,)),
            TensorPlan(f"{name}.mlp.3.weight", (width, hidden), hidden**-0.5),
            TensorPlan(f"{name}.mlp.3.bias", (width,)),
        ]


def _low_rank_names(block: str) -> tuple[str, str]:
    return f"{block}.lora_query", f"{block}.lora_value"


def _norm_plan(name: str, width: int) -> list[TensorPlan]:
    return [
        TensorPlan(f"{name}.weight", (width,), centre=1.0),
        TensorPlan(f"{name}.bias", (width,)),
    ]
