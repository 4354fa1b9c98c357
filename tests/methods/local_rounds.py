"""Whole local rounds on a device, without an agent around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Trained
from fleetledger.methods.training.exchange import (
    ClientUpdate,
    FitInstruction,
    FitJob,
    LocalData,
    Observed,
)


@dataclass(frozen=True)
class LocalRounds:
    """The rounds of a method on a device."""

    device: Any
    pictures: Pictures | None

    def begun(
        self, of: Any, asks: FitInstruction, data: LocalData, memory: bytes | None = None
    ) -> FitJob:
        found: FitJob | None = self.device.begin(of, asks, data, memory, self.pictures)
        assert found is not None
        return found

    def trained(self, work: FitJob) -> tuple[FitJob, Trained]:
        """The last training of a round, and what came of it."""
        settings = TrainingEngineSettings()
        made = train_alone(work.work, settings)
        while work.following is not None:
            work = work.following(made)
            made = train_alone(work.work, settings)
        return work, made

    def learn(
        self, of: Any, asks: FitInstruction, data: LocalData, memory: bytes | None = None
    ) -> ClientUpdate:
        """One local round."""
        job = self.begun(of, asks, data, memory)
        made: ClientUpdate = (
            self.device.measured(of, job)
            if job.work is None
            else self.device.finish(of, *self.trained(job))
        )
        return made

    def observed(
        self, of: Any, asks: FitInstruction, data: LocalData, memory: bytes | None = None
    ) -> Observed:
        """The look of a device outside the cohort."""
        found: Observed | None = self.device.observe(of, asks, data, memory, self.pictures)
        assert found is not None
        return found
