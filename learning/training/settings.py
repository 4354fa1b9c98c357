"""How an engine runs, whatever it trains, and where networks are computed beside training."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy.typing as npt
import torch
from torch import Tensor

from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.inference import Inference
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.training.calibration import Calibrations
from fleetledger.learning.training.devices import products_in_tf32
from fleetledger.learning.training.shared_inference import SharedInferences

EngineName = Literal["loop", "stack", "lots", "auto"]
StepsName = Literal["eager", "compiled", "captured"]
State = dict[str, Tensor]


@dataclass(frozen=True)
class Arithmetic:
    """What of the settings changes a step's arithmetic; a part of what a step is kept by."""

    device: str = "cpu"
    autocast: bool = False
    channels_last: bool = False

    def precision(self) -> AbstractContextManager[Any]:
        """Return the context to compute losses in."""
        if not self.autocast:
            return nullcontext()
        made: AbstractContextManager[Any] = torch.autocast(
            torch.device(self.device).type, torch.bfloat16
        )
        return made

    def laid_out(self, tensor: Tensor) -> Tensor:
        """Return the tensor as convolutions are to read it: one with four axes channels last."""
        if not self.channels_last or tensor.dim() != 4:
            return tensor
        return tensor.contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True)
class TrainingEngineSettings:
    """Where and how to compute."""

    engine: EngineName = "loop"
    """`lots`: all works that are given at once in one stack, where they can share it."""
    device: str = "cpu"
    autocast: bool = False
    """bfloat16 where torch deems it safe; weights and their steps stay as they are (float32)."""
    inference_batch: int = 256
    """Samples of a full pass at once; of scenes no more than a batch of training."""
    stack_bytes: int | None = None
    """Memory that a stack of agents may take; more agents are trained in several stacks. None: a
    share of what is free when training begins."""
    calibrations: Calibrations | None = None
    """Where `auto` keeps what it has measured; None: it measures every time."""
    steps: StepsName = "eager"
    """How a step is carried out: call by call; compiled as one graph by `torch.compile`; captured
    once as a CUDA graph and replayed for all agents that train in a loop."""
    channels_last: bool = False
    """Whether convolutions read pictures pixel by pixel, as a GPU's prefer it in bfloat16. In a
    loop; what is trained comes back in its usual order."""
    tf32: bool | None = None
    """Whether a GPU multiplies float32 by TF32, numbers of 10 bits, in matrices and convolutions.
    None: as torch has it, in convolutions alone."""
    shared_inference: SharedInferences | None = None
    """Looks that agents share; None: each looks by itself."""

    @property
    def arithmetic(self) -> Arithmetic:
        """What of this changes a step's arithmetic."""
        return Arithmetic(self.device, self.autocast, self.channels_last)

    def products(self) -> AbstractContextManager[None]:
        """Multiply float32 as `tf32` says inside, and as before behind."""
        return nullcontext() if self.tf32 is None else products_in_tf32(allowed=self.tf32)

    def inference(self, pictures: Pictures | None) -> Inference:
        """Return how networks in use are computed here.

        In float32 and in batches of one size, whatever the settings of training say: entropies are
        compared over rounds, and exemplars chosen by features, on every machine alike.
        """
        return Inference(pictures=pictures, device=self.device)

    def tensors(self, arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[State, State]:
        """Return parameters and buffers of arrays, where networks are computed."""
        return to_tensors(arrays, self.device)
