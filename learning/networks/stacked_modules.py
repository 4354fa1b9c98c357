"""Modules from outside for a stack of agents: one call of `torch.vmap` over their tensors.

Batch normalisation is the one layer of torch's that mixes samples, so it is replaced by one that
leaves rows out that pad. Whether the rest of a module can be computed so is found by a try: two
agents with random tensors, one of them with rows that pad, must have the features, buffers and
gradients that each has alone. What a module draws by chance would differ, so one that draws is
trained alone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from fleetledger.learning.networks.module_source import ModuleSource
from fleetledger.learning.networks.torch_modules import (
    Passing,
    called,
    copy_of,
    described,
    watched,
)

log = logging.getLogger("learning.modules")

_REPLACED = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_SAMPLES, _VALID = 8, 6
"""Of each agent of a try; so many of the second one's count."""
_TRIES = ((torch.float64, 1e-7), (torch.float32, 1e-2))
"""Types, and the largest difference as a share of the largest value; a deep network's norms
amplify rounding in float32."""

Found = tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]


class RowsNorm(nn.Module):  # type: ignore[misc]
    """Batch normalisation by the rows that count; tensors are called as in torch's."""

    weight: Tensor | None
    bias: Tensor | None
    running_mean: Tensor | None
    running_var: Tensor | None

    def __init__(self, norm: nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d) -> None:
        super().__init__()
        for name in ("weight", "bias"):
            self.register_parameter(name, norm._parameters[name])
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, norm._buffers[name])
        self.eps, self.momentum = norm.eps, norm.momentum or 0.0
        self.rows: list[Tensor] = []
        """The weights (n,) of the rows that pass, 1 or 0; not a tensor of the module."""

    def forward(self, values: Tensor) -> Tensor:
        """Return values (n, c, ...) normalised by those of the rows, or by what was followed."""
        mean, variance = self.running_mean, self.running_var
        if self.training or mean is None or variance is None:
            mean, variance = self._measured(values)
        scale = torch.rsqrt(variance + self.eps)
        normal = (values - _along(mean, values)) * _along(scale, values)
        if self.weight is not None:
            normal = normal * _along(self.weight, values)
        return normal if self.bias is None else normal + _along(self.bias, values)

    def _measured(self, values: Tensor) -> tuple[Tensor, Tensor]:
        rows = self.rows[0].to(values.dtype).reshape(-1, *(1 for _ in values.shape[1:]))
        axes = (0, *range(2, values.dim()))
        count = rows.sum() * values[0, 0].numel()
        mean = (values * rows).sum(axes) / count
        variance = ((values - _along(mean, values)).square() * rows).sum(axes) / count
        if self.running_mean is not None and self.running_var is not None:
            fresh = mean.detach(), variance.detach() * count / (count - 1)
            self.running_mean = torch.lerp(self.running_mean, fresh[0], self.momentum)
            self.running_var = torch.lerp(self.running_var, fresh[1], self.momentum)
        return mean, variance


def _along(channels: Tensor, values: Tensor) -> Tensor:
    """Return numbers (c,) shaped to meet values (n, c, ...)."""
    return channels.reshape(-1, *(1 for _ in values.shape[2:]))


def called_stacked(
    body: ModuleSource,
    parameters: Mapping[str, Tensor],
    buffers: Mapping[str, Tensor],
    inputs: Tensor,
    weight: Tensor,
    how: Passing,
) -> Found:
    """Return features (A, n, d) of inputs (A, n, ...), buffers that changed, and inner outputs.

    `weight` (A, n) is 0 for rows that pad. Tensors that all agents share have no axis of agents.
    """
    copy = copy_of(body, inputs.device, with_rows_norms)
    copy.set_mode(training=how.training, measured=how.measured)
    norms = [part for part in copy.module.modules() if isinstance(part, RowsNorm)]
    for norm in norms:
        norm.train(how.measured)
    tensors = described(body).tensors
    given = {one.path: (parameters if one.trained else buffers)[one.name] for one in tensors}
    for one in tensors:
        if how.training and not one.trained:
            each = given[one.path].expand(len(inputs), *one.shape)
            given[one.path] = each if how.measured and how.owned else each.clone()
    axes = {one.path: 0 if given[one.path].dim() > len(one.shape) else None for one in tensors}
    follow = [one for one in tensors if not one.trained] if how.measured else []
    others = dict(copy.module.named_buffers()) if how.training else {}

    def alone(state: dict[str, Tensor], rows: Tensor, values: Tensor) -> Found:
        for norm in norms:
            norm.rows = [rows]
        fresh = {path: buffer.clone() for path, buffer in others.items() if path not in state}
        held = {**fresh, **state}
        with watched(copy.module, how.inner, body.name) as seen:
            features = functional_call(copy.module, held, (values,))
        return features, {one.name: held[one.path] for one in follow}, seen

    with sdpa_kernel(SDPBackend.MATH):  # of attention's kernels the one that stacks
        found: Found = torch.vmap(alone, in_dims=(axes, 0, 0))(given, weight, inputs)
    for norm in norms:
        norm.rows = []
    return found


def with_rows_norms(module: nn.Module) -> nn.Module:
    """Put `RowsNorm` where torch's batch normalisation is."""
    for parent in list(module.modules()):
        for name, part in parent.named_children():
            if type(part) in _REPLACED:
                setattr(parent, name, RowsNorm(part))
    return module


@lru_cache(64)
def alone_because(body: ModuleSource) -> str | None:
    """Return why a module is trained one agent after another; None where a stack computes it.

    Found by a try, once in a process, and then told in the log.
    """
    reason = _fault(body)
    if reason is not None:
        log.info("network %r trains one agent after another: %s", body.name, reason)
    return reason


def _fault(body: ModuleSource) -> str | None:
    if described(body).draws:
        return "it draws by chance in training (dropout or the like)"
    for kind, within in _TRIES:
        try:
            difference = _difference(body, kind)
        except Exception as error:  # noqa: BLE001 - whatever it does, alone it is trained
            reason = f"torch cannot stack it: {str(error).strip().partition(chr(10))[0]}"
            continue
        if not difference <= within:
            return f"rows of one agent change those of others, or it rounds: {difference:.1e} apart"
        return None
    return reason


def _difference(body: ModuleSource, kind: torch.dtype) -> float:
    """Return how far two agents in a stack are from each alone, as a share of the largest value."""
    draw = torch.Generator().manual_seed(1)
    inputs = torch.rand(2, _SAMPLES, *body.shape, generator=draw, dtype=kind)
    weight = torch.ones(2, _SAMPLES, dtype=kind)
    weight[1, _VALID:], inputs[1, _VALID:] = 0, 0
    state = copy_of(body, inputs.device).module.state_dict()
    parameters: dict[str, Tensor] = {}
    buffers: dict[str, Tensor] = {}
    for one in described(body).tensors:
        first = state[one.path].detach().to(kind)
        moved = first * (1 + 0.1 * torch.rand(first.shape, generator=draw, dtype=kind))
        (parameters if one.trained else buffers)[one.name] = torch.stack([first, moved])
    how = Passing(training=True, measured=True, owned=False, seed=None)
    factor = torch.rand(_SAMPLES, described(body).width, generator=draw, dtype=kind) - 0.5
    leaves = {name: tensor.requires_grad_() for name, tensor in parameters.items()}
    features, after, _ = called_stacked(body, leaves, buffers, inputs, weight, how)
    together = features, after, _slopes(features * weight.unsqueeze(-1) * factor, leaves)
    differences = []
    for agent, count in enumerate((_SAMPLES, _VALID)):
        own = {name: tensor[agent].detach().requires_grad_() for name, tensor in leaves.items()}
        held = {name: tensor[agent] for name, tensor in buffers.items()}
        alone, followed, _ = called(body, own, held, inputs[agent, :count], how)
        pairs = (
            ({"": together[0][agent, :count]}, {"": alone}),
            (_of(agent, together[1]), followed),
            (_of(agent, together[2]), _slopes(alone * factor[:count], own)),
        )
        differences += [_apart(found, expected) for found, expected in pairs]
    return max(differences)


def _slopes(values: Tensor, leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
    found = torch.autograd.grad(
        values.sum(), list(leaves.values()), allow_unused=True, materialize_grads=True
    )
    return dict(zip(leaves, found, strict=True))


def _of(agent: int, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor[agent] for name, tensor in tensors.items()}


def _apart(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> float:
    """Return the largest difference as a share of the largest value of all; NaN stays NaN."""
    largest = max((float(one.detach().abs().max()) for one in expected.values()), default=0.0)
    differences = [
        float((found[name] - one).detach().abs().max()) for name, one in expected.items()
    ]
    return max(differences, default=0.0) / (largest or 1.0)
