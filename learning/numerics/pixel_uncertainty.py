"""How uncertain a model is of a device's pictures, pixel by pixel: what FBL's task monitor watches.

FBL (11) takes the mean over a picture's pixels of the entropy in nats, and a rise by 0.6 for a new
task: `mean_entropy`, for the released programs' mode. A grown head alone reaches that: its new rows
begin as copies of the background's, so that a confident background pixel has entropy ln(K + 1).

`most_uncertain` holds still when a head grows. It measures with the rows that were registered at
the last measurement, undoes what growing took from the background's score, ln(K + 1) for K new rows
(`learning.numerics.background_rows`), takes H / ln C, and of each picture the most uncertain tenth
of its pixels, since a new object is a small part of it. What to compare the values with is
`learning.numerics.detection`'s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from learning.numerics.entropy import Floats, entropy, relative_entropy, softmax

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

    `rows` names the channels of `logits` (n, C, h, w), background first; `known` are the names at
    the last measurement, None at the first. `counted` as in `mean_entropy`.
    """
    shown = logits if known is None else registered_logits(logits, rows, known)
    return _top_means(relative_entropy(_by_pixel(shown)), counted, SHARE)


def registered_logits(logits: Logits, rows: Sequence[str], known: Sequence[str]) -> Logits:
    """Return the logits (n, C', h, w) of the `known` rows, background as before the head grew.

    Fewer than two known rows measure nothing: then all rows stay.
    """
    columns = [column for column, name in enumerate(rows) if name in set(known)]
    if len(columns) < 2:
        return logits
    kept = np.array(logits[:, columns], np.float64)
    if columns[0] == 0:
        kept[:, 0] += math.log(len(rows) - len(columns) + 1)
    return kept


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
