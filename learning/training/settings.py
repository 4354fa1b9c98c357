"""How an engine runs, whatever it trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

EngineName = Literal["loop", "stack", "auto"]


@dataclass(frozen=True)
class TrainingEngineSettings:
    """Where and how to compute."""

    engine: EngineName = "loop"
    device: str = "cpu"
    autocast: bool = False
    """bfloat16 where torch deems it safe; weights and their steps stay as they are (float32)."""
    inference_batch: int = 256
    """Samples of a full pass at once; of scenes no more than a batch of training."""
    stack_bytes: int = 1 << 30
    """Memory that a stack of agents may take; more agents are trained in several stacks."""

    def precision(self) -> torch.autocast:
        """Return the context to compute losses in."""
        return torch.autocast(torch.device(self.device).type, torch.bfloat16, enabled=self.autocast)
