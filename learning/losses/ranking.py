"""LUCIR's margin ranking: an old sample's true class shall lead the new classes by a margin.

    mean over old samples, and over the K new classes with the highest cosines, of
        max(0, margin - cos_true + cos_new)             K = 2, margin = 0.5
                                                        (Hou et al., CVPR 2019: inter-class
                                                        separation)

A sample is old where its class is not new; those that a device keeps are its anchors. With fewer
than K new classes all of them are taken, without a new class or an old sample the term is 0.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from fleetledger.learning.losses.reduction import over_classes, weighted_mean, within


def margin_ranking(
    cosines: Tensor,
    targets: Tensor,
    weight: Tensor,
    new: Tensor,
    hardest: int = 2,
    margin: float = 0.5,
) -> Tensor:
    """Return the mean (...) over pairs of `cosines` (..., n, C), classes' scores from -1 to 1.

    `new` is a mask of the classes, bool (C,) or (A, C); `hardest` is K.
    """
    is_new = over_classes(new, cosines)
    true = cosines.gather(-1, targets.unsqueeze(-1))
    places = within(cosines, new).topk(min(hardest, cosines.shape[-1]), dim=-1).indices
    losses = functional.relu(margin - true + cosines.gather(-1, places))
    old = weight.unsqueeze(-1) * ~is_new.gather(-1, targets.unsqueeze(-1))
    pairs = old * is_new.gather(-1, places)
    return weighted_mean(losses.flatten(-2), pairs.flatten(-2))
