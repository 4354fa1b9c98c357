"""Looks of devices that are computed together, where an accelerator computes them.

They look through networks that all of them have: the weights that the round sent, and with some
methods the model before them. On the processor each looks by itself, in the batches of a device, so
that last bits are those of a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from fleetledger.learning.errors import LearningError
from fleetledger.methods.training.exchange import FitInstruction, LocalData
from fleetledger.methods.training.sides import AnyTrainingAssignment, AnyTrainingDevice
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.simulator.errors import EngineError

if TYPE_CHECKING:
    from fleetledger.learning.networks.pictures import Pictures
    from fleetledger.learning.training.settings import TrainingEngineSettings
    from fleetledger.learning.training.shared_inference import InferenceRequest

_TOGETHER = 64
"""Devices that only look, whose samples are in memory at once."""


class AskedMember(NamedTuple):
    """A device with an order: what it was told, has, and remembers."""

    instruction: FitInstruction
    data: LocalData
    memory: bytes | None


def number_observing(engine: TrainingEngineSettings) -> int:
    """Return how many devices that only look do so together."""
    return 1 if engine.device == "cpu" else _TOGETHER


def with_shared_inference(
    side: AnyTrainingDevice,
    assignment: AnyTrainingAssignment,
    asked: Sequence[AskedMember | None],
    pictures: Pictures | None,
    engine: TrainingEngineSettings,
) -> TrainingEngineSettings:
    """Return the engine with the looks of devices that are handed it next, in this order.

    Raises `EngineError` for what no later try would make better.
    """
    if engine.device == "cpu":
        return engine
    found: dict[str, Sequence[InferenceRequest]] = {}
    for one in asked:
        if one is None:
            continue
        try:
            looks = side.shared_requests(assignment, *one, pictures, engine)
        except (FleetledgerError, LearningError) as error:
            raise EngineError(f"{one.instruction.device}: {error}") from error
        if looks:
            found[one.instruction.device] = looks
    if not found:
        return engine
    from fleetledger.learning.training.shared_inference import SharedInferences  # noqa: PLC0415 - needs torch

    return replace(engine, shared_inference=SharedInferences(found))
