"""Settings of a cross-entropy whose scores carry how often a device has each class."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fleetledger.runtime.strict import Strict


class PriorSettings(Strict):
    """Of methods whose cross-entropy may have a prior (`learning.losses.prior`)."""

    ce_prior: Literal["none", "device"] = "none"
    """`device`: its scores carry how often a device has each class, so that it does not learn to
    answer frequent ones."""
    prior_strength: float = Field(default=1.0, ge=0, le=100)
    """tau: the factor of the logarithm of counts."""
    prior_absent: float = Field(default=0.0, ge=0, le=1)
    """What a class without a sample counts as in the prior; 0 leaves it out of L_CE."""
