"""The memory of the GPU that a run computes on: free, and what stacks may take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fleetledger.simulator.features.providers import torch_has_cuda
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.trainer import trainer_of
from fleetledger.simulator.virtual.training import TrainerPoolSettings

_MIB = 1 << 20


@dataclass(frozen=True)
class CardMemory:
    """A GPU on which this process computes."""

    free_bytes: Callable[[], int]
    stack_bytes: Callable[[], int] | None = None
    """What a stack of devices may take; None where none is trained in stacks."""

    @property
    def free_mib(self) -> float:
        """What can be had now."""
        return self.free_bytes() / _MIB

    @property
    def stack_mib(self) -> float | None:
        """What a stack may take of it now; None without stacks."""
        return None if self.stack_bytes is None else self.stack_bytes() / _MIB


def card_of(scenario: Scenario) -> CardMemory | None:
    """Return the GPU that a scenario computes on by torch in this process; None without one."""
    engine = scenario.engine
    if engine.kind != "inprocess" or engine.device == "cpu" or not torch_has_cuda():
        return None
    from fleetledger.learning.training.free_memory import free_bytes  # noqa: PLC0415 - needs torch
    from fleetledger.learning.training.memory import stack_bytes  # noqa: PLC0415 - needs torch

    settings = TrainerPoolSettings.of(engine).for_torch()
    stacks = trainer_of(scenario) is not None and settings.engine != "loop"
    return CardMemory(
        lambda: free_bytes(settings.device),
        (lambda: stack_bytes(settings)) if stacks else None,
    )
