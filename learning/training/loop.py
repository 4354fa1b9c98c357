"""The plain loop: one agent after another, each on batches of its real size."""

from __future__ import annotations

import torch

from fleetledger.learning.errors import TrainingError
from fleetledger.learning.networks.conversion import brought_home
from fleetledger.learning.networks.inference import Inference
from fleetledger.learning.networks.torch_layers import Tensors
from fleetledger.learning.training.batches import AgentBatches, real_type
from fleetledger.learning.training.devices import memory_watched, moved
from fleetledger.learning.training.frozen_outputs import with_frozen_outputs
from fleetledger.learning.training.local_epoch import LocalEpoch
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.stepping import Steps
from fleetledger.learning.training.work import Extras, Trained, Work


def train_alone(work: Work, settings: TrainingEngineSettings) -> Trained:
    """Return what the training of one agent makes of its work; `work` stays as it is.

    Raises `TrainingError` for batches that batch normalisation could not measure, and `MemoryError`
    where a GPU has too little memory.
    """
    check(work)
    with memory_watched(), settings.products():
        return _train(work, settings)


def _train(work: Work, settings: TrainingEngineSettings) -> Trained:
    (work,) = with_frozen_outputs([moved(work, settings.device)], settings)
    steps = Steps.of(work, settings)
    batches = AgentBatches.of(work, buffers_owned=True, epochs=work.optimiser.epochs)
    losses = []
    for epoch, rate in enumerate(work.optimiser.rates):
        extras = prepared(work, steps.state.tensors(), steps.buffers, epoch, settings)
        steps.begin_epoch(extras.agent)
        total = torch.zeros((), dtype=real_type(work), device=settings.device)
        every = batches.steps(epoch, extras.samples)
        if work.local_epoch is not None:
            one = LocalEpoch(epoch, rate, total, steps, list(every))
            work.local_epoch(one)
            losses.append(one.loss)
            continue
        for parts in every:
            total += steps.step(parts, rate)
        losses.append(total)
    return _trained(work, *steps.trained(), losses)


def check(work: Work) -> None:
    """Raise `TrainingError` for work with a batch or part of one that a norm would measure."""
    batching = work.batching
    if work.least_rows == 1:
        return
    alone = batching.smallest < 2 and len(work.data) % batching.size == 1
    if alone or batching.size == 1:
        raise TrainingError(
            f"batching: a batch of one is left of {len(work.data)} in all, which batch "
            "normalisation cannot measure; set size and smallest to 2 or more, or freeze the norms"
        )
    if batching.part_size == 1:
        raise TrainingError(
            f"batching: size {batching.size} in parts {batching.parts} makes parts of one, which "
            f"batch normalisation cannot measure; set parts to {batching.size // 2} at most, or "
            "freeze the norms"
        )


def prepared(
    work: Work, parameters: Tensors, buffers: Tensors, epoch: int, settings: TrainingEngineSettings
) -> Extras:
    """Return what the work's full pass before an epoch finds, if it has one."""
    if work.prepare is None:
        return Extras()
    at_once = settings.inference_batch
    if work.scenes is not None:
        at_once = min(at_once, work.batching.size)
    infer = Inference(at_once, work.pictures, settings.autocast)
    return work.prepare(work, parameters, buffers, epoch, infer)


def _trained(
    work: Work, parameters: Tensors, buffers: Tensors, losses: list[torch.Tensor]
) -> Trained:
    steps = work.batching.count(len(work.data))
    means: tuple[float, ...] = ()
    if steps and losses:
        means = tuple(brought_home(torch.stack(losses) / steps).tolist())
    return Trained(parameters, buffers, len(work.data), steps * work.optimiser.epochs, means)
