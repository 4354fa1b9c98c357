"""Scores that carry how often classes occur, so that a cross-entropy does not learn it.

    L = mean over samples of -ln [ n_y^tau e^(z_y) / sum over classes c of n_c^tau e^(z_c) ]

n_c counts a device's samples of class c. Trained so, a network without the prior answers as if all
classes were equally frequent: Ren et al., "Balanced Meta-Softmax for Long-Tailed Visual
Recognition", NeurIPS 2020 (tau = 1); Menon et al., "Long-tail learning via logit adjustment", ICLR
2021 (any tau). Zhang et al., "Federated Learning with Label Distribution Skew via Logits
Calibration", ICML 2022, do so on devices, with tau n_c^(-1/4) subtracted instead of a logarithm.
"""

from __future__ import annotations

import torch
from torch import Tensor


def log_prior(counts: Tensor, strength: float, absent: float) -> Tensor:
    """Return tau ln n_c (C,) of `counts` (C,), at least float32; a factor of all cancels out.

    A class without a sample counts as `absent`. At 0 it is left out: its prior is minus infinity,
    so no sample pushes its score down, as in the strictest form of Li and Zhan, "FedRS: Federated
    Learning with Restricted Softmax for Label Distribution Non-IID Data", KDD 2021.
    """
    kind = torch.promote_types(counts.dtype, torch.float32)
    known = torch.where(counts > 0, counts.to(kind), absent)
    lowest = torch.full_like(known, -torch.inf)
    return torch.where(known > 0, strength * known.log(), lowest)
