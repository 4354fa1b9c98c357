"""A loss over pixels from weighted terms: what `Work` wants of a segmentation network.

    loss = DenseLoss(network, fbl())
    frozen = {"old": {"parameters": ..., "buffers": ...}, "tasks": tasks, "exponent": exponent}
    extras = {"thresholds": adaptive_thresholds(batches, accepted_share(epoch))}

Losses are values, and not for stacks of agents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fleetledger.learning.losses.segmentation.step import PixelStep
from fleetledger.learning.networks.segmentation.torch_layers import DenseOutputs
from fleetledger.learning.networks.torch_layers import Mode, Tensors
from fleetledger.learning.training.work import Batch, Tree


class PixelTerm(Protocol):
    """One part of a loss; pure, and equal terms are equal values."""

    def __call__(self, step: PixelStep) -> Tensor:
        """Return the term's value ()."""
        ...


@dataclass(frozen=True)
class WeightedTerm:
    """A term and its factor."""

    factor: float
    term: PixelTerm


class DenseNetwork(Protocol):
    """A segmentation network; a value, so that losses are. Its channels follow from its rows."""

    def __call__(
        self, parameters: Tensors, buffers: Tensors, inputs: Tensor, mode: Mode
    ) -> tuple[DenseOutputs, Tensors]:
        """Return what the network makes of pictures (B, 3, h, w), and its new buffers; pure."""
        ...


@dataclass(frozen=True)
class DenseLoss:
    """The sum of weighted terms over one pass of the batch through the network."""

    network: DenseNetwork
    terms: tuple[WeightedTerm, ...]

    @property
    def stackable(self) -> bool:
        """Whether it takes stacks of agents: convolutions do not."""
        return False

    def __call__(
        self, parameters: Tensors, buffers: Tensors, frozen: Tree, extras: Tensors, batch: Batch
    ) -> tuple[Tensor, Tensors]:
        """Return the loss () and the new buffers; `batch.targets` (B, h, w) are masks."""
        training = batch.mode(training=True)
        outputs, changed = self.network(parameters, buffers, batch.inputs, training)

        def use(name: str) -> DenseOutputs:
            model: Tree = frozen[name]
            with torch.no_grad():
                made, _ = self.network(
                    model["parameters"], model["buffers"], batch.inputs, batch.mode(training=False)
                )
            return _in_full(made)

        step = PixelStep(_in_full(outputs), batch.targets.long(), frozen, extras, use)
        values = [part.factor * part.term(step) for part in self.terms]
        return torch.stack(values).sum(), changed


def _in_full(outputs: DenseOutputs) -> DenseOutputs:
    """Return the outputs in float32 at least: losses of bfloat16 scores are too coarse."""
    return DenseOutputs(
        tuple(_wide(values) for values in outputs.maps),
        _wide(outputs.small_logits),
        _wide(outputs.logits),
    )


def _wide(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))
