"""Whether a run's statistics are computed and solved on a GPU."""

from __future__ import annotations

from fleetledger.learning.errors import LearningError
from fleetledger.learning.numerics.accelerator import Accelerator
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.features.providers import torch_has_cuda
from fleetledger.simulator.scenario.sections import EngineSettings


def accelerator_of(engine: EngineSettings) -> Accelerator | None:
    """Return the GPU that computes for a fleet in this process; None where NumPy does.

    Raises `EngineError` where the GPU does not compute exactly.
    """
    if engine.kind == "mqtt" or engine.device == "cpu" or not torch_has_cuda():
        return None
    from fleetledger.learning.training.torch_accelerator import TorchAccelerator  # noqa: PLC0415 - an extra

    try:
        return TorchAccelerator("cuda")
    except LearningError as error:
        raise EngineError(f"engine.{error}") from error
