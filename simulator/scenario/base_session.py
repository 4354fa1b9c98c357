"""How a first stage is trained in one place, where the method's settings ask for that."""

from __future__ import annotations

from pydantic import Field

from fleetledger.runtime.strict import Strict


class BaseSession(Strict):
    """`[method.base]`: how the first stage is trained, for a method with `base = "central"`.

    All its images are pooled, and the fleet begins with what comes of it. The default is DCID's
    protocol for CIFAR-100.
    """

    epochs: int = Field(default=160, ge=1, le=10_000)
    """Passes over the images."""
    batch: int = Field(default=128, ge=2, le=65_536)
    """Images of a step."""
    rate: float = Field(default=0.1, gt=0)
    """Learning rate of the first epochs."""
    milestones: tuple[int, ...] = (80, 120)
    """Epochs after which the rate is lowered."""
    milestone_factor: float = Field(default=0.1, gt=0, le=1)
    """What the rate is multiplied with at each milestone."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Of stochastic gradient descent."""
    weight_decay: float = Field(default=5e-4, ge=0)
    """Likewise."""
    pad: int = Field(default=0, ge=0, le=64)
    """Black pixels around a picture, of which a window of its size is cut by chance."""
    flip: bool = False
    """Whether half of the pictures are mirrored by chance."""
