"""Batch normalisation of many agents' rows at once, some of which only pad.

    m = sum_i s_i x_i,   v = sum_i s_i (x_i - m)^2,   y_i = g (x_i - m) / sqrt(v + eps) + b

with an agent's shares s_i = w_i / sum w. With h_i = dL/dy_i, c_i = x_i - m, r = 1 / sqrt(v + eps),

    dL/db = sum_i h_i,   dL/dg = r sum_i h_i c_i,
    dL/dx_i = g r (h_i - s_i (dL/db + c_i r dL/dg))

so that the way back takes eight kernels, and no more than the way there is kept for it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from learning.networks.body import EPSILON


def masked_norm(
    values: Tensor, gain: Tensor, shift: Tensor, share: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return y of values (A, n, d), and their m and v (A, d), which have no gradient.

    `gain` and `shift` are (A, d), or (d,) for all agents; `share` is s (A, n). Values in bfloat16
    are measured in the type of `gain`, as torch's own norm does, and y is in theirs.
    """
    with torch.autocast(values.device.type, enabled=False):  # which would round the sums
        exact = values.to(gain.dtype)
        made: tuple[Tensor, Tensor, Tensor] = _MaskedNorm.apply(exact, gain, shift, share)
    return made[0].to(values.dtype), *made[1:]


class _MaskedNorm(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's
        values: Tensor,
        gain: Tensor,
        shift: Tensor,
        share: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        row = share.unsqueeze(-2)
        mean = row @ values
        centred = values - mean
        variance = row @ centred.square()
        rate = torch.rsqrt(variance + EPSILON)
        factor = gain.unsqueeze(-2) * rate
        ctx.save_for_backward(centred, rate, factor, share)
        ctx.shared = gain.dim() == 1, shift.dim() == 1
        mean, variance = mean.squeeze(-2), variance.squeeze(-2)
        ctx.mark_non_differentiable(mean, variance)
        ctx.set_materialize_grads(False)
        return torch.addcmul(shift.unsqueeze(-2), centred, factor), mean, variance

    @staticmethod
    def backward(
        ctx: Any,  # noqa: ANN401 - torch's
        slope: Tensor,
        *_: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, None]:
        centred, rate, factor, share = ctx.saved_tensors
        by_shift = slope.sum(dim=-2, keepdim=True)
        by_gain = (slope * centred).sum(dim=-2, keepdim=True) * rate
        along = torch.addcmul(by_shift, centred, by_gain * rate)
        by_values = torch.addcmul(slope, share.unsqueeze(-1), along, value=-1) * factor
        own = [
            by.squeeze(-2).sum(dim=0) if shared else by.squeeze(-2)
            for by, shared in zip((by_gain, by_shift), ctx.shared, strict=True)
        ]
        return by_values, own[0], own[1], None
