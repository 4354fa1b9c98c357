"""Rounds as a base for methods of one's own: the steps that a subclass may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.herding import herd
from fleetledger.methods.rounds.settings import RoundsSettings
from fleetledger.methods.steps import Steps

if TYPE_CHECKING:
    from torch import Tensor

    from fleetledger.learning.losses.composition import Step
    from fleetledger.learning.training.local_epoch import LocalEpoch

Arrays = Mapping[str, npt.NDArray[Any]]


class Rounds(Steps):
    """Federated averaging of a whole network, with the loss and the memory of the settings.

    | step | side | when |
    | --- | --- | --- |
    | `loss` | device | each batch |
    | `local_epoch` | device | each local epoch |
    | `exemplars` | device | a stage has ended, for each class of it |
    | `check` | coordinator | an answer has come, before it counts |
    | `combine` | coordinator | a round's answers are averaged |
    """

    package = "fleetledger.methods.rounds"
    Settings: ClassVar[type[RoundsSettings]] = RoundsSettings
    stacks: ClassVar[bool] = False
    """Whether `loss` takes tensors with an axis of agents before those that it says, and returns a
    value for each: simulated devices are then trained together."""

    inner: ClassVar[tuple[str, ...]] = ()
    """Layers of the network whose outputs `step.inner[name]` are in `loss`, submodules by their
    dotted names; of a model before, those of `step.teacher(name).inner`."""

    settings: RoundsSettings

    def loss(self, step: Step) -> Tensor:
        """Return the loss () of a batch of n samples; the settings' loss unless it is changed.

        `step.features` (n, d), `step.logits` (n, C), `step.targets` (n,) are of the batch, and
        `step.taught("old_model", "logits")` of the fleet's model before this stage, where the
        settings ask for one.
        """
        return step.composed()

    def local_epoch(self, epoch: LocalEpoch) -> None:
        """Train one local epoch: a step of the optimiser for each batch unless it is changed."""
        for batch in epoch:
            epoch.step(batch)

    def exemplars(self, features: npt.NDArray[np.float32], count: int) -> npt.ArrayLike:
        """Return which of a class's samples are kept: at most `count` rows of (n, d), in order.

        Herding unless it is changed (Rebuffi et al., iCaRL, CVPR 2017, Algorithm 4).
        """
        return herd(features, count)

    def check(self, update: Arrays, sent: Arrays) -> None:
        """Raise `ContributionError` for an answer that cannot be; its form was checked before.

        `update` are the weights that it answers with, `sent` those that it began with, by name.
        """

    def combine(self, mean: Arrays, sent: Arrays, extras: dict[str, bytes]) -> Arrays:
        """Return the fleet's weights from the exact mean of a round's answers: the mean itself.

        `sent` are the weights that the round began with, of the same names and shapes. `extras` are
        the files that devices are given with the next round, by name: what is put there stays in
        the ledger, and comes back here a round later. Equal arguments must give equal weights.
        """
        return mean
