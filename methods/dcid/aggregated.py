"""DAD: the coordinator distils the ensemble of all models into their mean, equation (5).

    l_A = KL( softmax(zbar_1 / tau2) || softmax(f(theta, x) / tau2) ) over x in S, new classes

Normalisation is by the running statistics, which stay: S is small. Training is floating point, so
it runs on one thread, in the order that seed and round give: the same bytes on one kind of machine,
which the ledger's fingerprint and the remark name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from learning.errors import TrainingError
from learning.networks.conversion import to_arrays, to_tensors
from learning.networks.pictures import Pictures
from learning.training.chance import Chance
from learning.training.loop import train_alone
from learning.training.settings import EngineSettings
from methods.dcid.assignment import DcidAssignment
from methods.dcid.distilling import Pupil, distilling_work
from methods.dcid.images import Images
from methods.errors import MethodError
from methods.network_weights import Arrays
from methods.training_half import Asked

_COORDINATOR = "coordinator"
_PHASE = "dad"


@dataclass(frozen=True, eq=False)
class Lesson:
    """What the mean is taught: images, the ensemble's logits on them, and the old classes."""

    images: Images
    ensemble: npt.NDArray[np.float32]
    old: int


def distilled(
    assignment: DcidAssignment, asked: Asked, mean: Arrays, lesson: Lesson
) -> tuple[Arrays, tuple[str, ...]]:
    """Return the general model that DAD makes of the mean, and remarks for the ledger.

    Raises `MethodError` where training left the numbers, and where nobody said how pictures become
    inputs.
    """
    if not asked.mean:
        raise MethodError("asked: has no mean and deviation of pictures, and DAD needs them")
    settings = assignment.settings
    chance = Chance(asked.seed, _COORDINATOR, round=asked.round_of_stage, phase=_PHASE)
    pupil = Pupil(*to_tensors(mean), lesson.images, Pictures(asked.mean, asked.deviation))
    work = distilling_work(assignment, pupil, lesson.ensemble, lesson.old, settings.tau2, chance)
    try:
        with one_torch_thread():
            trained = train_alone(work, EngineSettings())
    except TrainingError as error:
        raise MethodError(f"DAD: {error}") from error
    arrays = to_arrays(trained.parameters, trained.buffers)
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise MethodError("DAD: weights are not finite; set distil_rate lower")
    losses = trained.losses or (0.0,)
    remark = (
        f"DAD on {len(lesson.images)} images: loss {losses[0]:.4g} to {losses[-1]:.4g} "
        f"(torch {torch.__version__}, one thread)"
    )
    return arrays, (remark,)


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Run the block on one thread of torch: then the order of additions is the library's own."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
