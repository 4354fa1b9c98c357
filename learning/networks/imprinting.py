"""Imprinting: new rows of a cosine head begin where the features of their classes lie.

    w_c = m_c / |m_c| times the mean length of the old rows,  m_c = mean of f / |f| over class c
                                                (Qi et al., CVPR 2018; LUCIR: Hou et al., CVPR 2019)

Scores do not depend on the length of a row, the size of its steps does.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.feature_rows import Floats


def imprinted(
    weight: npt.NDArray[np.float32], directions: Floats, held: int
) -> npt.NDArray[np.float32]:
    """Return the head's `weight` (C, d) with the rows after the first `held` imprinted.

    `directions` (C, d) are m_c / |m_c|, as `class_directions` gives them; a row of zeros, a class
    without a sample, keeps its first weights. Without an old row the length is 1.
    """
    lengths = np.linalg.norm(weight[:held].astype(np.float64), axis=1)
    known = directions.any(axis=1) & (np.arange(len(weight)) >= held)
    rows = directions * (lengths.mean() if held else 1.0)
    return np.where(known[:, np.newaxis], rows, weight).astype(weight.dtype)
