"""Rounds as a base for methods of one's own."""

from __future__ import annotations

from fleetledger.methods.rounds.settings import RoundsSettings
from fleetledger.methods.training.steps import TrainingSteps


class Rounds(TrainingSteps):
    """Federated averaging of a whole network, with the loss and the memory of the settings.

    Its steps are those of `TrainingSteps`; `loss` takes in FedProx, FedMAX, EWC and distillation
    where the settings ask for them.
    """

    package = "fleetledger.methods.rounds"

    class Settings(RoundsSettings):
        """What an operator may set; a subclass may add fields."""

    settings: RoundsSettings
