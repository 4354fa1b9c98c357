"""How uncertain a model is of a device's pictures, pixel by pixel: what FBL's task monitor watches.

FBL (11) takes the mean over a picture's pixels of the entropy in nats, and a rise by 0.6 for a new
task: `mean_entropy`, for the released programs' mode. A grown head alone reaches that: its new rows
begin as copies of the background's, so that a certain background pixel has entropy ln(K + 1).

`most_uncertain` and `mean_uncertainty` hold still when a head grows. They measure with the rows
that were registered at an earlier measurement; the probability of later rows is background's,
whence they came (`learning.networks.segmentation.head`), so that growing changes nothing. To leave
them out would: growing takes ln(K + 1) from background's score. The former takes the mean of
H / ln C over the most uncertain tenth of each picture's pixels, a new object being a small part of
it: for rules that compare levels. The latter takes it over all pixels, for rules that go by ranks,
to which a small rise is enough: on street scenes and photographs the most uncertain pixels lie at
borders, whatever is shown (benchmarks/papers/detection).

What to compare the values with is `learning.numerics.detection`'s. Values under other rows are not
comparable: `known` stays as it is for as long as a history goes on, also while the new rows are
learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.entropy import Floats, entropy, relative_entropy, softmax

Logits = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

SHARE = 0.1
"""Of a picture's pixels: the most uncertain ones."""


def mean_entropy(logits: Logits, counted: Mask | None = None) -> Floats:
    """Return I of (11) for each picture (n,) in nats, from logits (n, C, h, w).

    `counted` (n, h, w) leaves pixels out; None counts all. A picture without any has 0.
    """
    return _top_means(entropy(_by_pixel(logits)), counted, 1.0)


def most_uncertain(
    logits: Logits,
    rows: Sequence[str],
    known: Sequence[str] | None = None,
    counted: Mask | None = None,
) -> Floats:
    """Return the mean of H / ln C over the most uncertain tenth of each picture's pixels (n,).

    `rows` names the channels of `logits` (n, C, h, w), background first; `known` are the names when
    the history began, None for all. `counted` as in `mean_entropy`.
    """
    return _top_means(_relative(logits, rows, known), counted, SHARE)


def mean_uncertainty(
    logits: Logits,
    rows: Sequence[str],
    known: Sequence[str] | None = None,
    counted: Mask | None = None,
) -> Floats:
    """Return the mean of H / ln C over each picture's pixels (n,); see `most_uncertain`."""
    return _top_means(_relative(logits, rows, known), counted, 1.0)


def registered_logits(logits: Logits, rows: Sequence[str], known: Sequence[str]) -> Logits:
    """Return the logits (n, C', h, w) of the `known` rows; background's hold the other rows too.

    Background alone measures nothing: then all rows stay.
    """
    held = [column for column, name in enumerate(rows) if column and name in set(known)]
    if not held:
        return logits
    others = [column for column in range(len(rows)) if column not in held]
    wide = logits.astype(np.float64)
    background = np.logaddexp.reduce(wide[:, others], axis=1, keepdims=True)
    return np.concatenate([background, wide[:, held]], axis=1)


def _relative(logits: Logits, rows: Sequence[str], known: Sequence[str] | None) -> Floats:
    """Return H / ln C (n, h, w) by the known rows."""
    shown = logits if known is None else registered_logits(logits, rows, known)
    return relative_entropy(_by_pixel(shown))


def _by_pixel(logits: Logits) -> Floats:
    return softmax(np.moveaxis(logits, 1, -1))


def _top_means(values: Floats, counted: Mask | None, share: float) -> Floats:
    pictures = [picture.reshape(-1) for picture in values]
    if counted is not None:
        chosen = [mask.reshape(-1) for mask in counted]
        pictures = [picture[mask] for picture, mask in zip(pictures, chosen, strict=True)]
    return np.array([_top_mean(picture, share) for picture in pictures])


def _top_mean(values: Floats, share: float) -> float:
    if not len(values):
        return 0.0
    number = max(1, round(share * len(values)))
    return float(np.partition(values, len(values) - number)[-number:].mean())
