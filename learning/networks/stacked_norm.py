"""Batch normalisation of many agents' rows at once, some of which only pad.

    m = sum_i s_i x_i,   v = sum_i s_i (x_i - m)^2,   y_i = g (x_i - m) / sqrt(v + eps) + b

with an agent's shares s_i = w_i / sum w. With h_i = dL/dy_i, c_i = x_i - m, r = 1 / sqrt(v + eps),

    dL/db = sum_i h_i,   dL/dg = r sum_i h_i c_i,
    dL/dx_i = g r (h_i - s_i (dL/db + c_i r dL/dg))

so that the way back takes eight kernels, and no more than the way there is kept for it. A sample
of a map has p pixels, each of which has the share s_i / p.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fleetledger.learning.networks.body import EPSILON


def masked_norm(
    values: Tensor, gain: Tensor, shift: Tensor, share: Tensor, epsilon: float = EPSILON
) -> tuple[Tensor, Tensor, Tensor]:
    """Return y of values (A, n, d), and their m and v (A, d), which have no gradient.

    Or of maps (A, n, d, h, w). `gain` and `shift` are (A, d), or (d,) for all agents; `share` is
    s (A, n). Values in bfloat16 are measured in the type of `gain`, as torch's own norm does, and
    y is in theirs.
    """
    with torch.autocast(values.device.type, enabled=False):  # which would round the sums
        exact = values.to(gain.dtype)
        made: tuple[Tensor, Tensor, Tensor] = _MaskedNorm.apply(exact, gain, shift, share, epsilon)
    return made[0].to(values.dtype), *made[1:]


class _MaskedNorm(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's
        values: Tensor,
        gain: Tensor,
        shift: Tensor,
        share: Tensor,
        epsilon: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        row = share.unsqueeze(-2)
        mean = _beside(row @ _over_pixels(values), values)
        centred = values - mean
        variance = row @ _over_pixels(centred.square())
        rate = _beside(torch.rsqrt(variance + epsilon), values)
        factor = _beside(gain.unsqueeze(-2), values) * rate
        ctx.save_for_backward(centred, rate, factor, share)
        ctx.shared = gain.dim() == 1, shift.dim() == 1
        mean, variance = mean.flatten(1), variance.squeeze(-2)
        ctx.mark_non_differentiable(mean, variance)
        ctx.set_materialize_grads(False)
        moved = _beside(shift.unsqueeze(-2), values)
        return torch.addcmul(moved, centred, factor), mean, variance

    @staticmethod
    def backward(
        ctx: Any,  # noqa: ANN401 - torch's
        slope: Tensor,
        *_: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, None, None]:
        centred, rate, factor, share = ctx.saved_tensors
        axes, pixels = _SAMPLES[slope.dim()], slope[0, 0, 0].numel()
        by_shift = slope.sum(dim=axes, keepdim=True)
        by_gain = (slope * centred).sum(dim=axes, keepdim=True) * rate
        along = torch.addcmul(by_shift, centred, by_gain * rate)
        each = _beside(share.unsqueeze(-1), slope)
        by_values = torch.addcmul(slope, each, along, value=-1 / pixels) * factor
        own = [
            by.flatten(1).sum(dim=0) if shared else by.flatten(1)
            for by, shared in zip((by_gain, by_shift), ctx.shared, strict=True)
        ]
        return by_values, own[0], own[1], None, None


_SAMPLES = {3: (1,), 5: (1, 3, 4)}
"""Axes of an agent's samples, and of their pixels, by the number of all axes."""


def _over_pixels(values: Tensor) -> Tensor:
    """Return rows (A, n, d) as they are, and of maps (A, n, d, h, w) the mean over pixels."""
    return values if values.dim() == 3 else values.mean(dim=(-2, -1))


def _beside(tensor: Tensor, values: Tensor) -> Tensor:
    """Return what meets rows (..., n, d), shaped to meet values with pixels behind."""
    return tensor if values.dim() == 3 else tensor[..., None, None]
