"""Thresholds of pseudo labels: a full pass over the device's current scenes before each epoch.

fbl        gamma of Algorithm 1: entropies of the local model in training, rho from the epoch
released   the released program's quantile, of the old model's entropies
plop, rcil medians of the old model's entropies
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from fleetledger.learning.losses.segmentation.thresholds import (
    accepted_share,
    adaptive_thresholds,
    median_thresholds,
    released_thresholds,
)
from fleetledger.learning.networks.inference import Inference
from fleetledger.learning.networks.segmentation.torch_layers import DensePass
from fleetledger.learning.networks.torch_layers import Mode, Tensors
from fleetledger.learning.training.work import Extras, Work
from fleetledger.methods.fbl.losses import OLD, TASKS
from fleetledger.methods.fbl.settings import FblSettings

THRESHOLDS = "thresholds"


def has_thresholds(settings: FblSettings) -> bool:
    """Return whether the pseudo labels of the settings' loss have thresholds of classes."""
    adaptive = settings.loss in ("fbl", "released") and settings.labels == "adaptive"
    return adaptive or settings.loss in ("plop", "rcil")


@dataclass(frozen=True)
class FindsThresholds:
    """A work's pass before each epoch: what it yields is `THRESHOLDS`, (C_old,)."""

    network: DensePass
    settings: FblSettings
    before: int
    """Local epochs that rho counts before the first one of this round."""

    def __call__(
        self, work: Work, parameters: Tensors, buffers: Tensors, epoch: int, infer: Inference
    ) -> Extras:
        """Return the thresholds of an epoch."""
        settings = self.settings
        share = accepted_share(
            self.before + epoch, settings.share_start, settings.share_step, settings.share_most
        )
        if settings.loss in ("plop", "rcil"):
            found = median_thresholds(self._of_the_old_model(work, infer))
        elif settings.loss == "released":
            channels = len(work.frozen[TASKS])
            found = released_thresholds(self._of_the_old_model(work, infer), channels, share)
        else:
            found = adaptive_thresholds(self._of_both(work, parameters, buffers, infer), share)
        return Extras({THRESHOLDS: found})

    def _of_the_old_model(self, work: Work, infer: Inference) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield old logits and labels."""
        found = infer.over(lambda inputs: self._old(work, inputs), work.data.inputs)
        yield from zip(found, work.data.targets.split(infer.batch_size), strict=True)

    def _of_both(
        self, work: Work, parameters: Tensors, buffers: Tensors, infer: Inference
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield logits, old logits and labels."""

        def both(inputs: Tensor) -> tuple[Tensor, Tensor]:
            return self._logits(parameters, buffers, inputs), self._old(work, inputs)

        found = infer.over(both, work.data.inputs)
        labels = work.data.targets.split(infer.batch_size)
        for (now, old), shown in zip(found, labels, strict=True):
            yield now, old, shown

    def _old(self, work: Work, inputs: Tensor) -> Tensor:
        old = work.frozen[OLD]
        return self._logits(old["parameters"], old["buffers"], inputs)

    def _logits(self, parameters: Tensors, buffers: Tensors, inputs: Tensor) -> Tensor:
        outputs, _ = self.network(parameters, buffers, inputs, Mode())
        return outputs.logits.float()
