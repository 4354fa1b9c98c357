"""Settings of a mean that bears answers of anybody: a bound, a trimmed mean, a median."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from fleetledger.methods.errors import ContributionError
from fleetledger.runtime.strict import Strict

if TYPE_CHECKING:  # settings are read without NumPy
    from fleetledger.learning.numerics.grids import Integers
    from fleetledger.learning.numerics.norms import UpdateNorm

Beyond = Literal["clip", "refuse"]


BESIDE_NOISE = (
    "robust: it measures and sorts single answers, and the noise of privacy hides a device in "
    "their sum alone; leave [rounds.robust] out, or give privacy.where = 'local'"
)
BESIDE_MASKS = (
    "robust: it needs every answer, and masks show their sum alone; leave [rounds.robust] out, or "
    "the masks"
)
"""Why a robust mean does not go with either, and what to do."""


class Robust(Strict):
    """What one answer may do to a round: docs/rounds.md#answers-that-may-be-anybodys."""

    mean: Literal["mean", "trimmed", "median"] = "mean"
    """How answers become weights, number by number. "mean": their mean by `averaging` of the
    method. "trimmed": the mean without the least and the largest values. "median": the middle
    value. In the last two each answer counts once, whatever its samples."""
    trim: float = Field(default=0.2, gt=0, lt=0.5)
    """Share of the answers that "trimmed" leaves out at each end; of three answers or more at least
    one."""
    max_norm: float | None = Field(default=None, gt=0, le=1e30, examples=[5.0])
    """Longest move of an answer from the weights that were sent, over all its weights but running
    statistics; left out, no bound. `fleetledger ledger inspect` says how long those of a fleet
    are."""
    beyond: Beyond = "clip"
    """What becomes of a longer one. "clip": it counts, shortened to `max_norm`. "refuse": it does
    not count, and its device is told why."""

    @property
    def needs_all(self) -> bool:
        """Whether the answers of a round are needed all at once."""
        return self.mean != "mean"

    @property
    def bound(self) -> NormBound | None:
        """The bound of one answer."""
        return None if self.max_norm is None else NormBound(self.max_norm, self.beyond)

    @property
    def said(self) -> str:
        """What becomes of answers, in words."""
        trimmed = f"their mean without {self.trim:g} of them at each end"
        what = {"mean": "their mean", "trimmed": trimmed, "median": "their median"}[self.mean]
        if self.max_norm is None:
            return what
        longer = "shortened" if self.beyond == "clip" else "refused"
        return f"{what}, of moves up to {self.max_norm:g}; longer ones are {longer}"

    def cut(self, answers: int) -> int:
        """Return how many of so many values are left out at each end."""
        from fleetledger.learning.numerics.middle_sums import (  # noqa: PLC0415 - with NumPy
            cut_at_each_end,
            cut_to_median,
        )

        if self.mean == "median":
            return cut_to_median(answers)
        return cut_at_each_end(answers, self.trim) if self.mean == "trimmed" else 0


def refuse_hidden(robust: Robust | None, settings: Mapping[str, Any]) -> None:
    """Raise `ValueError` where noise of a method's settings hides a device in a sum alone."""
    privacy = settings.get("privacy")
    if robust is None or not isinstance(privacy, Mapping) or not privacy.get("noise"):
        return
    if privacy.get("where") != "local":
        raise ValueError(f"rounds.{BESIDE_NOISE}")


def refuse_running(robust: Robust | None, is_asynchronous: bool) -> None:
    """Raise `ValueError` where all answers of a round are needed, and it waits for nobody."""
    if robust is not None and robust.needs_all and is_asynchronous:
        raise ValueError(
            f"robust.mean: {robust.mean!r} needs all answers of a round at once, and asynchronous "
            "rounds take them as they come; leave out [rounds.asynchronous], or give "
            "robust.mean = 'mean' with a max_norm"
        )


@dataclass(frozen=True)
class NormBound:
    """A bound of an answer's length."""

    most: float
    beyond: Beyond

    def kept(self, values: Integers, norm: UpdateNorm) -> Integers:
        """Return an answer (n,) within the bound; raise `ContributionError` where it is refused."""
        if self.beyond == "refuse" and not norm.is_within(values, self.most):
            raise ContributionError(
                f"answer: moves by {norm.length(norm.moved(values)):.4g}, and "
                f"rounds.robust.max_norm is {self.most:g}; train with a lower rate or fewer "
                "epochs, or have it raised"
            )
        return norm.clipped(values, self.most)
