"""Corrections of a head whose new rows lean towards their classes: none looks at the body.

WA, Zhao et al., "Maintaining Discrimination and Fairness in Class Incremental Learning", CVPR 2020:

    gamma = mean of |w_c| over old classes / mean of |w_c| over new classes
    o_corrected = (W_old^T phi, gamma W_new^T phi)
"""

from __future__ import annotations

from math import fsum, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float32]


def aligned(rows: npt.NDArray[Any], old: int) -> Rows:
    """Return rows (C, d), of which the first `old` stay and the others are gamma times as long.

    All stay where there are no old or no new rows, or the new ones are zero. Sums are exact: equal
    rows give equal bits on every machine.
    """
    lengths = [sqrt(fsum(row * row)) for row in rows.astype(np.float64)]
    if not 0 < old < len(rows) or not any(lengths[old:]):
        return np.asarray(rows, np.float32)
    gamma = fsum(lengths[:old]) / old * (len(rows) - old) / fsum(lengths[old:])
    return np.concatenate([rows[:old], gamma * rows[old:].astype(np.float64)]).astype(np.float32)
