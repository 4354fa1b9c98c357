"""Which class a set of gradients belongs to, read from the gradient of Gamma's last layer.

G = (softmax - onehot) h^T with h > 0, as sigmoids are: only the row of the true class is negative
(Zhao et al., iDLG, 2020; LGA, "label recovery"). So labels are not hidden by being left out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fleetledger.methods.errors import ContributionError


def recover_label(gradient: npt.NDArray[np.floating]) -> int:
    """Return the class of the last layer's weight gradient (classes, features).

    Raises `ContributionError` where no row is negative: no class could have made it.
    """
    sums = gradient.sum(axis=1, dtype=np.float64)
    label = int(sums.argmin())
    if not sums[label] < 0:
        raise ContributionError(
            "gradients: no row of the last layer is negative, so they belong to no class; make "
            "them by softmax cross-entropy with the encoding network of the assignment"
        )
    return label
