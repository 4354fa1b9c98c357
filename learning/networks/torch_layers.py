"""Layers carried out by torch, for one agent or for a stack of agents at once.

In a stack every trained tensor has a leading axis of agents, and so have the values: (A, n, d),
of pictures (A, n, c, h, w).
What all agents share, a teacher for instance, has none and is used by all. Rows of weight 0 pad
agents with fewer samples; batch normalisation measures the valid rows only. Nothing is changed in
place: new buffers come back beside the results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.errors import NetworkError, TrainingError
from fleetledger.learning.networks.body import EPSILON, MOMENTUM
from fleetledger.learning.networks.head import BIAS, SCALE, WEIGHT, row_inputs
from fleetledger.learning.networks.module_source import ModuleSource
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.stacked_maps import (
    MapNorm,
    Window,
    convolved,
    max_pooled,
    normalised_by_batch,
    normalised_in_use,
)
from fleetledger.learning.networks.stacked_modules import called_stacked
from fleetledger.learning.networks.stacked_norm import masked_norm
from fleetledger.learning.networks.torch_modules import Passing, called
from fleetledger.learning.networks.torch_tokens import (
    attended,
    normalised_tokens,
    patch_tokens,
    split_heads,
    with_positions,
)

Tensors = Mapping[str, Tensor]
Dropout = Callable[[Tensor, float, int], Tensor]
"""From values, rate and number of the layer to the values that are left."""
_WIDE = 16
"""Channels, below which a strided kernel of one pixel sees a map that was thinned out before.

That is the same sum. oneDNN's backward pass of the strided one writes past its memory where the
channels lie last and are fewer than it takes at once (uxlfoundation/oneDNN, issue 6035).
"""


@dataclass(frozen=True, eq=False)
class Mode:
    """How values pass: measured by their own batch with dropout, or as in use."""

    training: bool = False
    weight: Tensor | None = None
    """In a stack (A, n): 1 for a sample, 0 for a row that pads. None means one agent, all valid."""
    dropout: Dropout | None = None
    frozen_norm: bool = False
    """Whether batch normalisation follows the running statistics, which stay, while training."""
    owned: bool = False
    """Whether running statistics are the engine's own copies, which may be changed in place."""
    share: Tensor | None = None
    """In a stack (A, n): weight / sum of an agent's weights, where that is known already."""
    unbiasing: Tensor | None = None
    """In a stack (A, 1): sum / (sum - 1) of an agent's weights, likewise."""
    all_count: bool = False
    """Whether it is known that no row of a stack pads."""
    seed: Callable[[], int] | None = None
    """Makes what torch's generator begins with, for modules from outside that draw by it."""
    inner: frozenset[str] = frozenset()
    """Layers of the body whose outputs are kept, by name."""

    @property
    def measured(self) -> bool:
        """Whether batch normalisation measures the batch."""
        return self.training and not self.frozen_norm


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a network makes of a batch: features (..., n, d), logits (..., n, C), its buffers."""

    features: Tensor
    scores: Tensor | Callable[[], Tensor]
    """The logits, or what makes them once somebody asks: a term on features never does."""
    buffers: Tensors
    rows: Callable[[], Tensor] | None = None
    """What makes the inputs of the head's rows; None where these are the features."""
    inner: Tensors = field(default_factory=dict)
    """Outputs (..., n, ...) of the layers that were asked for by name."""
    _made: list[Tensor] = field(default_factory=list)
    """The logits, once they are; a `cached_property` has a lock, which `torch.compile` cannot
    look through."""

    @property
    def logits(self) -> Tensor:
        """Return the logits."""
        if not callable(self.scores):
            return self.scores
        if not self._made:
            self._made.append(self.scores())
        return self._made[0]

    @property
    def row_inputs(self) -> Tensor:
        """Return what the head's rows see (..., n, row width), the input of the last layer."""
        return self.features if self.rows is None else self.rows()


def forward(
    network: Network,
    parameters: Tensors,
    buffers: Tensors,
    inputs: Tensor,
    mode: Mode,
    head_mode: Mode | None = None,
) -> Outputs:
    """Return what the network makes of `inputs`; pure, but for buffers that `mode` says are owned.

    `head_mode` says how values pass the head, None that they do as in the body. The number of
    classes follows from the head's rows, so an older model is used as it is.
    """
    outputs = forward_lazily(network, parameters, buffers, inputs, mode, head_mode)
    return replace(outputs, scores=outputs.logits)


def forward_lazily(
    network: Network,
    parameters: Tensors,
    buffers: Tensors,
    inputs: Tensor,
    mode: Mode,
    head_mode: Mode | None = None,
) -> Outputs:
    """Return the same; a head in use is only computed once its scores are asked for.

    It leaves no trace in the buffers. What is true of gradients and precision then is so for it.
    """
    body = (WatchedLayers if mode.inner else TorchLayers)(parameters, buffers, mode)
    features = network.body.features(body, inputs)
    _check_inner(mode.inner, body)
    head = TorchLayers(parameters, buffers, head_mode or mode)
    seen: list[Tensor] = []  # once: a second pass would draw and measure anew

    def rows() -> Tensor:
        if not seen:
            seen.append(row_inputs(network.head, head, features, network.head_dropout))
        return seen[0]

    def scores() -> Tensor:
        return head_logits(parameters, rows())

    logits = scores() if head.mode.measured else scores
    changed = {**buffers, **body.changed, **head.changed}
    behind = rows if network.head == "hidden" else None
    return Outputs(features, logits, changed, behind, body.inner)


def head_logits(parameters: Tensors, features: Tensor) -> Tensor:
    """Return the rows' scores (..., n, C): linear, or cosine where the head has a scale."""
    weight = parameters[WEIGHT]
    if SCALE not in parameters:
        return linear(features, weight, parameters[BIAS])
    return parameters[SCALE][..., None, None] * head_cosines(parameters, features)


def head_cosines(parameters: Tensors, features: Tensor) -> Tensor:
    """Return the cosines (..., n, C) of features (..., n, d) and the rows of a cosine head."""
    directions = functional.normalize(parameters[WEIGHT], dim=-1)
    return linear(functional.normalize(features, dim=-1), directions, None)


def linear(values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return x W^T + b: `weight` (out, in) for all, or (A, out, in) for values (A, n, in)."""
    if weight.dim() == 2:
        return functional.linear(values, weight, bias)
    if bias is None:
        return torch.bmm(values, weight.mT)
    return torch.baddbmm(bias.unsqueeze(-2), values, weight.mT)


@dataclass(eq=False)
class TorchLayers:
    """`Layers` over torch tensors; `changed` collects the new buffers of one pass."""

    parameters: Tensors
    buffers: Tensors
    mode: Mode
    changed: dict[str, Tensor] = field(default_factory=dict)
    inner: dict[str, Tensor] = field(default_factory=dict)

    def rows(self, values: Tensor, axes: int) -> Tensor:
        """Return each sample's values as one row."""
        return values.flatten(start_dim=-axes)

    def linear(self, name: str, values: Tensor) -> Tensor:
        """Return x W^T + b of values (..., n, in)."""
        return linear(
            values, self.parameters[f"{name}.weight"], self.parameters.get(f"{name}.bias")
        )

    def project(self, values: Tensor, matrix: npt.NDArray[np.float32]) -> Tensor:
        """Return M x of values (..., n, in) by a matrix (out, in) that nobody trains."""
        fixed = torch.as_tensor(matrix, dtype=values.dtype, device=values.device)
        return functional.linear(values, fixed)

    def standardise(self, centre: str, spread: str, values: Tensor) -> Tensor:
        """Return (x - centre) / spread of values (..., n, d)."""
        return (values - self.parameters[centre]) / self.parameters[spread]

    def convolution(
        self, name: str, values: Tensor, stride: int = 1, dilation: int = 1, groups: int = 1
    ) -> Tensor:
        """Return the convolution of values (..., n, c, h, w), padded by half the kernel's span."""
        kernel, bias = self.parameters[f"{name}.weight"], self.parameters.get(f"{name}.bias")
        padding = kernel.shape[-1] // 2 * dilation
        if stride > 1 and kernel.shape[-1] == 1 and kernel.shape[-3] < _WIDE:
            values, stride = values[..., ::stride, ::stride], 1
        if self.mode.weight is not None:
            return convolved(values, kernel, bias, Window(stride, padding, dilation, groups))
        return functional.conv2d(values, kernel, bias, stride, padding, dilation, groups)

    def batch_norm(
        self, name: str, values: Tensor, epsilon: float = EPSILON, momentum: float = MOMENTUM
    ) -> Tensor:
        """Return the batch normalisation of values (..., n, d) or (..., n, c, h, w)."""
        if self.mode.weight is not None and values.dim() == 5:
            return self._stacked_map_norm(name, values, epsilon, momentum)
        if self.mode.weight is not None:
            return self._stacked_norm(name, values, self.mode.weight)
        if self.mode.measured and len(values) < 2:
            raise TrainingError(
                "batch: one sample cannot be normalised by its batch; set smallest to 2"
            )
        mean, variance = self._statistics(name)
        if self.mode.measured:
            if not self.mode.owned:
                mean, variance = mean.clone(), variance.clone()
            self._change(name, mean, variance)
        return functional.batch_norm(
            values,
            mean,
            variance,
            self.parameters[f"{name}.weight"],
            self.parameters[f"{name}.bias"],
            training=self.mode.measured,
            momentum=momentum,
            eps=epsilon,
        )

    def dropout(self, values: Tensor, rate: float, layer: int) -> Tensor:
        """Return values of which `rate` are zero while training; `layer` counts the dropouts."""
        if not self.mode.training or rate == 0:
            return values
        if self.mode.dropout is None:
            raise TrainingError("dropout: training needs a source of chance; set mode.dropout")
        return self.mode.dropout(values, rate, layer)

    def relu(self, values: Tensor) -> Tensor:
        """Return max(values, 0)."""
        return torch.relu(values)

    def add(self, one: Tensor, two: Tensor, name: str = "") -> Tensor:
        """Return the sum of two maps of one shape."""
        return one + two

    def max_pool(self, values: Tensor, side: int = 2) -> Tensor:
        """Return the largest of `side` x `side` pixels around every second pixel."""
        padding = (side - 1) // 2
        if self.mode.weight is not None:
            return max_pooled(values, side, padding)
        return functional.max_pool2d(values, side, stride=2, padding=padding)

    def mean_pool(self, values: Tensor) -> Tensor:
        """Return the mean over all pixels, (..., n, c)."""
        return values.mean(dim=(-2, -1))

    def patches(self, name: str, values: Tensor) -> Tensor:
        """Return one token for each patch of pictures (n, c, h, w): (n, t, width)."""
        return patch_tokens(
            values, self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"]
        )

    def positions(self, first: str, positions: str, values: Tensor) -> Tensor:
        """Return the token `first` before all tokens (n, t, width), each at its position."""
        return with_positions(values, self.parameters[first], self.parameters[positions])

    def layer_norm(self, name: str, values: Tensor) -> Tensor:
        """Return tokens normalised one by one."""
        return normalised_tokens(
            values, self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"]
        )

    def attention(
        self, name: str, values: Tensor, heads: int, beside: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """Return what tokens (n, t, width) gather from each other."""
        weight, bias = (self.parameters[f"{name}.in_proj_{part}"] for part in ("weight", "bias"))
        whole = linear(values, weight, bias)
        if beside is not None:
            queries, gathered = beside
            whole = whole + torch.cat([queries, torch.zeros_like(queries), gathered], dim=-1)
        mixed = attended(*split_heads(whole, heads))
        return self.linear(f"{name}.out_proj", mixed)

    def gelu(self, values: Tensor) -> Tensor:
        """Return x times the normal distribution function of x."""
        return functional.gelu(values)

    def scale(self, values: Tensor, factor: float) -> Tensor:
        """Return the values times a constant."""
        return values * factor

    def first_token(self, values: Tensor) -> Tensor:
        """Return the first token (n, width) of each picture."""
        return values[:, 0]

    def module(self, body: ModuleSource, values: Tensor) -> Tensor:
        """Return what a torch module from outside makes of values (..., n, *shape)."""
        mode = self.mode
        how = Passing(mode.training, mode.measured, mode.owned, mode.seed, mode.inner)
        if mode.weight is None:
            found = called(body, self.parameters, self.buffers, values, how)
        else:
            state = self.parameters, self.buffers
            found = called_stacked(body, *state, values, mode.weight, how)
        features, changed, inner = found
        self.changed |= changed
        self.inner |= inner
        return features

    def _statistics(self, name: str) -> tuple[Tensor, Tensor]:
        return self.buffers[f"{name}.running_mean"], self.buffers[f"{name}.running_var"]

    def _change(self, name: str, mean: Tensor, variance: Tensor) -> None:
        self.changed[f"{name}.running_mean"] = mean
        self.changed[f"{name}.running_var"] = variance

    def _stacked_norm(self, name: str, values: Tensor, weight: Tensor) -> Tensor:
        """Return the normalisation of values (A, n, d) by the rows of weight 1 of each agent."""
        gain, shift = self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"]
        if not self.mode.measured:
            return _normalised_in_use(values, *self._statistics(name), gain, shift)
        share, unbiasing = self.mode.share, self.mode.unbiasing
        if share is None or unbiasing is None:
            count = weight.sum(dim=-1, keepdim=True)
            share, unbiasing = weight / count, count / (count - 1)
        seen, mean, variance = masked_norm(values, gain, shift, share)
        self._follow(name, mean, variance * unbiasing)
        return seen

    def _stacked_map_norm(
        self, name: str, values: Tensor, epsilon: float, momentum: float
    ) -> Tensor:
        """Return the normalisation of maps (A, n, c, h, w) by each agent's rows of weight 1."""
        gain, shift = self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"]
        if not self.mode.measured:
            norm = MapNorm(*self._statistics(name), gain, shift, epsilon)
            return normalised_in_use(values, norm)
        own = self._own_statistics(name, (len(values), values.shape[2]))
        if self.mode.all_count:
            return normalised_by_batch(values, MapNorm(*own, gain, shift, epsilon), momentum)
        share = self.mode.share
        if share is None:
            assert self.mode.weight is not None
            share = self.mode.weight / self.mode.weight.sum(dim=-1, keepdim=True)
        seen, mean, variance = masked_norm(values, gain, shift, share, epsilon)
        # N / (N - 1) of N pixels: no agent's first row pads, so that its share is 1 / rows.
        fewer = torch.rsub(share[:, :1], 1, alpha=1 / values[0, 0, 0].numel())
        torch._foreach_lerp_(own, [mean, variance / fewer], momentum)
        return seen

    def _own_statistics(self, name: str, shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """Return running statistics (A, c) that a norm may change: the engine's, or copies."""
        before = self._statistics(name)
        if not self.mode.owned or any(values.shape != shape for values in before):
            before = before[0].expand(shape).clone(), before[1].expand(shape).clone()
        self._change(name, *before)
        return before

    def _follow(self, name: str, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics towards a batch's; variances are sample variances.

        Statistics that agents share so far become each agent's own.
        """
        before, measured = self._statistics(name), [mean, variance]
        if self.mode.owned and before[0].dim() == before[1].dim() == mean.dim():
            torch._foreach_lerp_(before, measured, MOMENTUM)
            self._change(name, *before)
        else:
            own = [values.expand_as(mean) for values in before]
            self._change(name, *torch._foreach_lerp(own, measured, MOMENTUM))


class WatchedLayers(TorchLayers):
    """The same; outputs of the layers that `mode.inner` names are kept."""

    def linear(self, name: str, values: Tensor) -> Tensor:
        """Return x W^T + b."""
        return self._kept(name, super().linear(name, values))

    def convolution(
        self, name: str, values: Tensor, stride: int = 1, dilation: int = 1, groups: int = 1
    ) -> Tensor:
        """Return the convolution."""
        return self._kept(name, super().convolution(name, values, stride, dilation, groups))

    def batch_norm(
        self, name: str, values: Tensor, epsilon: float = EPSILON, momentum: float = MOMENTUM
    ) -> Tensor:
        """Return the batch normalisation."""
        return self._kept(name, super().batch_norm(name, values, epsilon, momentum))

    def add(self, one: Tensor, two: Tensor, name: str = "") -> Tensor:
        """Return the sum of two maps."""
        return self._kept(name, super().add(one, two))

    def layer_norm(self, name: str, values: Tensor) -> Tensor:
        """Return tokens normalised one by one."""
        return self._kept(name, super().layer_norm(name, values))

    def attention(
        self, name: str, values: Tensor, heads: int, beside: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """Return what tokens gather from each other."""
        return self._kept(name, super().attention(name, values, heads, beside))

    def _kept(self, name: str, values: Tensor) -> Tensor:
        if name in self.mode.inner:
            self.inner[name] = values
        return values


def _check_inner(names: frozenset[str], layers: TorchLayers) -> None:
    missing = sorted(names - layers.inner.keys())
    if missing:
        known = sorted({name.rpartition(".")[0] for name in layers.parameters})
        raise NetworkError(
            f"inner: no layer {missing[0]!r} was passed; give one of {', '.join(known)}"
        )


def _normalised_in_use(
    values: Tensor, mean: Tensor, variance: Tensor, gain: Tensor, shift: Tensor
) -> Tensor:
    """Return values (A, n, d) normalised by statistics and moved by tensors (d,) or (A, d)."""
    if all(own.dim() == 1 for own in (mean, variance, gain, shift)):
        rows = values.flatten(0, 1)
        return functional.batch_norm(rows, mean, variance, gain, shift, eps=EPSILON).view_as(values)
    factor = (gain * torch.rsqrt(variance + EPSILON)).unsqueeze(-2)
    return torch.addcmul(shift.unsqueeze(-2), values - mean.unsqueeze(-2), factor)
