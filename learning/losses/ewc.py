"""Fed-EWC: weights that mattered for earlier tasks stay where they were.

    (lambda / 2) sum_i F_i (theta_i - theta*_i)^2          (Kirkpatrick et al., PNAS 2017)

theta* = the model at the end of the previous task, F its Fisher diagonal, capped at 1e-4; lambda =
1000. Rows of the head that did not exist then are left out. `learning.training.measures` measures
F on a device; the average over devices is `consolidated` with that of earlier tasks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fleetledger.learning.losses.reduction import summed_per_agent
from fleetledger.learning.networks.torch_layers import Tensors

FISHER_CAP = 1e-4
"""The largest entry of a Fisher diagonal, as in the released programs."""


def ewc_penalty(
    parameters: Tensors, anchor: Tensors, fisher: Tensors, *, stacked: bool = False
) -> Tensor:
    """Return half the Fisher-weighted squared distance (...) from `anchor`.

    Tensors without an entry in `fisher` are free. Where `anchor` has fewer rows than the parameter,
    the first rows are compared.
    """
    distances = []
    for name, importance in fisher.items():
        known = _known_rows(parameters[name], anchor[name], stacked=stacked)
        squares = importance * (known - anchor[name]).square()
        distances.append(summed_per_agent(squares, stacked))
    return 0.5 * torch.stack(distances).sum(dim=0)


def consolidated(old: Tensors, new: Tensors, old_share: float) -> dict[str, Tensor]:
    """Return F = alpha F_old + (1 - alpha) F_new with alpha = `old_share`, C_old / C_all.

    Rows that only `new` has are taken from it as they are.
    """
    merged = dict(new)
    for name, earlier in old.items():
        known = _known_rows(new[name], earlier, stacked=False)
        mixed = torch.lerp(known, earlier, old_share)
        later = new[name][len(earlier) :] if earlier.dim() else None
        merged[name] = mixed if later is None else torch.cat([mixed, later])
    return merged


def _known_rows(value: Tensor, anchor: Tensor, *, stacked: bool) -> Tensor:
    """Return the first rows of `value`, as many as `anchor` has, behind the axis of agents."""
    rank = value.dim() - int(stacked)
    return value.narrow(-rank, 0, anchor.shape[-rank]) if rank else value
