"""One step of an agent in the ways that there are: call by call, as one function, compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fleetledger.learning.training.batches import AgentBatches, StepParts
from fleetledger.learning.training.loop import prepared
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.static_steps import part_tensors
from fleetledger.learning.training.stepping import Steps, compiled
from fleetledger.learning.training.work import Work

EAGER = TrainingEngineSettings()
RATE = 0.01


@dataclass(frozen=True, eq=False)
class FirstStep:
    """An agent before the first step of its work."""

    steps: Steps
    parts: StepParts

    @classmethod
    def of(cls, work: Work, settings: TrainingEngineSettings = EAGER) -> FirstStep:
        """Return it, with tensors of its own."""
        steps = Steps.of(work, settings)
        found = prepared(work, steps.state.tensors(), steps.buffers, 0, settings)
        steps.begin_epoch(found.agent)
        batches = AgentBatches.of(work, buffers_owned=True)
        return cls(steps, next(batches.steps(0, found.samples)))

    def eager(self) -> dict[str, Tensor]:
        """Return loss and tensors after the step, call by call."""
        return self._after(self.steps.step(self.parts, RATE))

    def static(self, backend: str | None = None) -> dict[str, Tensor]:
        """Return the same of the step as one function of tensors, compiled by a backend."""
        every, steps = list(self.parts), self.steps
        step = steps.static(every)
        call: Callable[..., Tensor] = step if backend is None else compiled(step, backend)
        tensors = [part_tensors(part) for part in every]
        state, rate = steps.state, torch.tensor(RATE, dtype=steps.state.one.dtype)
        return self._after(call(state.values, state.velocities, steps.given(), tensors, rate))

    def _after(self, loss: Tensor) -> dict[str, Tensor]:
        parameters, buffers = self.steps.trained()
        return {"loss": loss, **parameters, **{f"buffer {name}": b for name, b in buffers.items()}}


def assert_same(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], **within: Any) -> None:
    """Equal tensors by name, or within a tolerance."""
    assert found.keys() == wanted.keys()
    tolerance = {"rtol": 0.0, "atol": 0.0} | within
    for name, tensor in wanted.items():
        torch.testing.assert_close(
            found[name], tensor, **tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )
