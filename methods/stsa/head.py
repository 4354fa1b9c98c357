"""The head that STSA solves for: scores = h W^T, with W as solved or brought to one length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fleetledger.methods.statistics.linear_head import LinearHead


@dataclass(frozen=True, eq=False)
class RidgeHead(LinearHead):
    """A linear head: probabilities = softmax(logit_scale * scores).

    `ridge` is the lambda it was solved with, `fingerprint` the platform.
    """

    logit_scale: float
    ridge: float
    fingerprint: Mapping[str, str]
