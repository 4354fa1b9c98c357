"""Integer features drawn around a class's mean, each feature for itself: the same for a seed.

CCVR (Luo et al., arXiv 2106.05001) and FedPFT (Beitollahi et al., arXiv 2402.01862) train a
classifier on such draws instead of on samples. Here covariances are diagonal.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.integer_features import QUANTISED_LARGEST
from fleetledger.learning.numerics.noise import normal_noise

Floats = npt.NDArray[np.float64]


def diagonal_moments(count: int, sums: Floats, squares: Floats) -> tuple[Floats, Floats]:
    """Return mean and unbiased variance (M,) of `count` samples from sums of h and of h^2 (M,).

    The variance of a single sample is 0.
    """
    mean = sums / count
    return mean, np.maximum(squares - sums * mean, 0.0) / max(count - 1, 1)


def draw_features(mean: Floats, variance: Floats, count: int, seed: bytes) -> npt.NDArray[np.int8]:
    """Return `count` draws (count, M) from the normal distribution, as features -127 to 127.

    Draws are rounded, so the last bits in which machines may differ hardly ever show; those
    beyond the range that features have are brought to its end.
    """
    normal = normal_noise(seed, count * len(mean)).reshape(count, len(mean))
    drawn = np.rint(mean + np.sqrt(variance) * normal)
    return np.clip(drawn, -QUANTISED_LARGEST, QUANTISED_LARGEST).astype(np.int8)
