"""LGA as a base for methods of one's own."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fleetledger.methods.lga.exemplars import chosen_rows
from fleetledger.methods.lga.settings import LgaSettings
from fleetledger.methods.training.steps import TrainingSteps


class Lga(TrainingSteps):
    """Rounds of devices that notice new tasks, balance what they forget and send a proxy gradients.

    Its steps are those of `TrainingSteps`: `loss` is equation (7), `exemplars` the herding of the
    settings. GLFC and the ablations of both papers are presets of the settings.
    """

    package = "fleetledger.methods.lga"

    class Settings(LgaSettings):
        """What an operator may set; a subclass may add fields."""

    settings: LgaSettings

    def exemplars(self, features: npt.NDArray[np.float32], count: int) -> npt.ArrayLike:
        """Return which of a class's samples are kept: the rows that the settings' herding takes."""
        return chosen_rows(self.settings, features, count)
