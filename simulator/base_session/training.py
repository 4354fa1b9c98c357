"""Central training of a first stage: cross-entropy on all its images, at rates that step down.

It is the method's own network with the method's own head, so what comes of it is what the fleet's
coordinator begins with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fleetledger.learning.losses.composition import ComposedLoss, Weighted
from fleetledger.learning.losses.terms import CrossEntropy
from fleetledger.learning.networks.conversion import to_arrays, to_tensors
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.engine import train
from fleetledger.learning.training.schedules import stepped_rates
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Batching, Data, Extras, Sgd, Work
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.scenario.sections import BaseSession

Arrays = Mapping[str, npt.NDArray[Any]]
Tell = Callable[[int], None]
"""Told the number of the epoch that begins, from 1."""

_WHO, _PHASE = "base-session", "base"


@dataclass(frozen=True, eq=False)
class Lesson:
    """Who learns what: a network with a row in its head for each class, and labelled samples."""

    network: Network
    begin: Arrays
    """The tensors that training begins with."""
    inputs: npt.NDArray[Any]
    rows: Sequence[int]
    """The row of the head that each sample belongs to."""
    pictures: Pictures | None
    """How uint8 pictures become inputs; None for features."""
    seed: int
    """Of shuffles, crops and mirrors."""


def train_centrally(
    lesson: Lesson, protocol: BaseSession, engine: TrainingEngineSettings, tell: Tell
) -> dict[str, npt.NDArray[np.float32]]:
    """Return the trained tensors; raise `EngineError` where training left the numbers."""
    parameters, buffers = to_tensors(lesson.begin)
    rates = stepped_rates(
        protocol.rate, protocol.epochs, protocol.milestones, protocol.milestone_factor
    )
    work = Work(
        parameters=parameters,
        buffers=buffers,
        data=Data(torch.from_numpy(lesson.inputs), torch.tensor(lesson.rows)),
        loss=ComposedLoss(lesson.network, (Weighted(1.0, CrossEntropy()),)),
        optimiser=Sgd(rates, protocol.momentum, protocol.weight_decay),
        batching=Batching(min(protocol.batch, max(2, len(lesson.rows)))),
        chance=Chance(lesson.seed, _WHO, phase=_PHASE),
        pictures=_shaken(lesson.pictures, protocol),
        prepare=_Telling(tell),
    )
    (trained,) = train([work], engine)
    arrays = to_arrays(trained.parameters, trained.buffers)
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise EngineError(
            f"method.base.rate: with {protocol.rate:g} the central training of the first stage "
            "left the numbers; give a smaller one"
        )
    return arrays


@dataclass(frozen=True)
class _Telling:
    """Says that an epoch begins; training asks it before each."""

    tell: Tell

    def __call__(
        self,
        work: Work,
        parameters: Mapping[str, Tensor],
        buffers: Mapping[str, Tensor],
        epoch: int,
        infer: object,
    ) -> Extras:
        """Tell the epoch's number; nothing is found."""
        self.tell(epoch + 1)
        return Extras()


def _shaken(pictures: Pictures | None, protocol: BaseSession) -> Pictures | None:
    return pictures and replace(pictures, pad=protocol.pad, flip=protocol.flip)
