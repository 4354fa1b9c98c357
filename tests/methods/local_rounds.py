"""Whole local rounds on a device, without an agent around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from learning.networks.pictures import Pictures
from learning.training.loop import train_alone
from learning.training.settings import TrainingEngineSettings
from learning.training.work import Trained
from methods.training_half import Answer, Begun, LocalData, Observed, Order


@dataclass(frozen=True)
class LocalRounds:
    """The rounds of a method on a device."""

    device: Any
    pictures: Pictures | None

    def begun(self, of: Any, asks: Order, data: LocalData, memory: bytes | None = None) -> Begun:
        found: Begun | None = self.device.begin(of, asks, data, memory, self.pictures)
        assert found is not None
        return found

    def trained(self, work: Begun) -> tuple[Begun, Trained]:
        """The last training of a round, and what came of it."""
        settings = TrainingEngineSettings()
        made = train_alone(work.work, settings)
        while work.following is not None:
            work = work.following(made)
            made = train_alone(work.work, settings)
        return work, made

    def learn(self, of: Any, asks: Order, data: LocalData, memory: bytes | None = None) -> Answer:
        """One local round."""
        made: Answer = self.device.finish(of, *self.trained(self.begun(of, asks, data, memory)))
        return made

    def observed(
        self, of: Any, asks: Order, data: LocalData, memory: bytes | None = None
    ) -> Observed:
        """The look of a device outside the cohort."""
        found: Observed | None = self.device.observe(of, asks, data, memory, self.pictures)
        assert found is not None
        return found
