"""Novelty check with the fleet's model, where a round asks a device for nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.requests import Train
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.training import load_side
from fleetledger.methods.errors import MethodError
from fleetledger.methods.registry import descriptor
from fleetledger.methods.training.exchange import FitInstruction, LocalData, Observed
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.values import Digest

if TYPE_CHECKING:
    from fleetledger.learning.training.settings import TrainingEngineSettings


def check_novelty(
    assignment: Assignment,
    instruction: FitInstruction,
    data: LocalData,
    memory: bytes | None,
    engine: Callable[[], TrainingEngineSettings],
) -> Observed | None:
    """Return what the fleet's model makes of the images, or None where there are none.

    `engine` says where that is computed, once it is needed. Raises `MissingError` without torch,
    `MethodError`, `LearningError`, and `MemoryError` where a GPU has too little memory.
    """
    method = assignment.method
    if not descriptor(method).observes:
        raise MethodError(
            f"round.observes: true, but {method!r} has no devices look; ask this device to train"
        )
    from fleetledger.methods.training.sides import ObservingDevice  # noqa: PLC0415 - an agent starts without it

    to = load_side(assignment)
    assert isinstance(to.side, ObservingDevice)
    from fleetledger.learning.training.devices import memory_watched  # noqa: PLC0415 - needs torch

    with memory_watched():
        return to.side.observe(to.assignment, instruction, data, memory, to.pictures, engine())


def observed(
    request: Train,
    seen: Observed | None,
    unusable: tuple[tuple[Digest, str], ...],
    blobs: BlobFolder,
) -> inputs.NoveltyChecked | inputs.NothingToTrain:
    """Put the memory on the disk, before anything speaks of it."""
    if seen is None:
        return inputs.NothingToTrain(request.job, unusable)
    memory = blobs.put(seen.memory) if seen.memory is not None else None
    return inputs.NoveltyChecked(request.job, seen.observation, memory, unusable)
