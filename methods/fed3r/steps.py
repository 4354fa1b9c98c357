"""Statistics as a base for methods of one's own, by the sums of Fed3R."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import LearningError
from fleetledger.learning.numerics.ridge import solve_ridge
from fleetledger.methods.errors import MethodError
from fleetledger.methods.fed3r.settings import Fed3rSettings
from fleetledger.methods.statistics.linear_head import cosine_weights
from fleetledger.methods.steps import MethodSteps
from fleetledger.schemas.values import ClassName

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sums:
    """What a fleet knows of its features h, for M of them and C classes with samples."""

    gram: Floats
    """G = sum of h h^T over all samples (M, M)."""
    classes: Floats
    """P, the sum of h over each class (M, C)."""
    counts: npt.NDArray[np.int64]
    """Samples of each class (C,)."""
    class_names: tuple[ClassName, ...]


class Statistics(MethodSteps):
    """One pass over frozen features: devices send exact sums, and the head is solved from them.

    | step | side | when |
    | --- | --- | --- |
    | `check` | coordinator | sums of a device have come, before they count |
    | `solve` | coordinator | a head is made |
    """

    package = "fleetledger.methods.fed3r"

    class Settings(Fed3rSettings):
        """What an operator may set; a subclass may add fields."""

    settings: Fed3rSettings

    def check(self, sums: Sums) -> None:
        """Raise `ContributionError` for sums of a device that cannot be.

        That they are of the right form and are sums of possible features was checked before.
        """

    def solve(self, sums: Sums) -> npt.NDArray[np.floating]:
        """Return the rows of the head (C, M): scores are h W^T.

        Ridge regression unless it is changed, w_c = v_c / |v_c| with V = (G + lambda I)^-1 P (Fani
        et al., arXiv 2406.01116), for features of usual length. Equal sums must give equal rows.
        """
        try:
            solution = solve_ridge(sums.gram, sums.classes, self.settings.added_ridge)
        except LearningError as error:
            raise MethodError(str(error)) from error
        usual = sqrt(float(np.trace(sums.gram)) / int(sums.counts.sum()))
        rows: Floats = cosine_weights(solution, usual).T
        return rows

    def rows(self, sums: Sums) -> npt.NDArray[np.floating]:
        """Return what `solve` gives; raise `MethodError` where own rows are none."""
        made = np.asarray(self.solve(sums))
        shape = (len(sums.class_names), len(sums.gram))
        if made.shape != shape or not np.isfinite(made).all():
            raise MethodError(
                f"solve: {type(self).__name__} gives rows of shape {made.shape}, or numbers that "
                f"are not finite; give finite ones of shape {shape}"
            )
        return made
