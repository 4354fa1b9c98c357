"""The steps of methods that train, which one of one's own may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from fleetledger.learning.networks.plan import is_buffer
from fleetledger.learning.numerics.herding import herd
from fleetledger.methods.errors import MethodError
from fleetledger.methods.steps import MethodSteps
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import shorten

if TYPE_CHECKING:
    from torch import Tensor

    from fleetledger.learning.losses.composition import Step
    from fleetledger.learning.training.local_epoch import LocalEpoch

Arrays = Mapping[str, npt.NDArray[Any]]


class TrainingSteps(MethodSteps):
    """The steps that devices and coordinator take in a round.

    | step | side | when |
    | --- | --- | --- |
    | `loss` | device | each batch |
    | `local_epoch` | device | each local epoch |
    | `exemplars` | device | exemplars of a class are chosen |
    | `check` | coordinator | an answer has come, before it counts |
    | `combine` | coordinator | a round's answers are averaged |
    """

    stacks: ClassVar[bool] = False
    """Whether `loss` takes tensors with an axis of agents before those that it says, and returns a
    value for each: simulated devices are then trained together."""

    inner: ClassVar[tuple[str, ...]] = ()
    """Layers of the network whose outputs `step.inner[name]` are in `loss`, submodules by their
    dotted names; of a model before, those of `step.teacher(name).inner`."""

    def loss(self, step: Step) -> Tensor:
        """Return the loss () of a batch of n samples; the settings' loss unless it is changed.

        `step.features` (n, d), `step.logits` (n, C), `step.targets` (n,) are of the batch, and
        `step.taught("old_model", "logits")` is what the fleet's model of before makes of it, where
        the settings ask for one.
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

        Both have what is trained; what follows the data, as running statistics do, is the mean.
        `sent` are the weights that the round began with, of the same names and shapes. `extras` are
        the files that devices are given with the next round, by name: what is put there stays in
        the ledger, and comes back here a round later. Equal arguments must give equal weights.
        """
        return mean

    def own_loss(self) -> Self | None:
        """Return these steps where they have a loss of their own."""
        return self if self.changes("loss") else None

    def rows_kept(self, features: npt.NDArray[np.float32], count: int) -> list[int]:
        """Return the rows of `exemplars`; raise `MethodError` where own ones are none."""
        if not self.changes("exemplars"):
            return list(self.exemplars(features, count))  # type: ignore[arg-type]
        found = np.asarray(self.exemplars(features, count))
        rows = found.tolist()
        known = found.ndim == 1 and (found.dtype.kind in "iu" or not rows)
        if not known or len(set(rows)) != len(rows) or len(rows) > count:
            raise MethodError(
                f"exemplars: {type(self).__name__} gives {shorten(rows)}; give at most "
                f"{count_of(count, 'row')}, each once"
            )
        if rows and not 0 <= min(rows) <= max(rows) < len(features):
            raise MethodError(
                f"exemplars: {type(self).__name__} gives {shorten(rows)}; rows are from 0 to "
                f"{len(features) - 1}"
            )
        return list(rows)

    def combined(
        self, mean: Arrays, sent: Arrays, extras: dict[str, bytes]
    ) -> dict[str, npt.NDArray[Any]]:
        """Return what `combine` makes of a mean; raise `MethodError` for other tensors."""
        trained = {name: array for name, array in mean.items() if not is_buffer(name)}
        made = self.combine(trained, {name: sent[name] for name in trained}, extras)
        found = {name: np.asarray(made.get(name)) for name in trained}
        for name, array in trained.items():
            if found[name].shape != array.shape:
                raise MethodError(
                    f"combine: {type(self).__name__} gives no {name!r} of shape {array.shape}; "
                    "give every tensor of the mean"
                )
            if not np.isfinite(found[name]).all():
                raise MethodError(
                    f"combine: {type(self).__name__} gives {name!r} with numbers that are not "
                    "finite; give finite ones"
                )
        own = {name: found[name].astype(array.dtype) for name, array in trained.items()}
        return {name: own.get(name, array) for name, array in mean.items()}
