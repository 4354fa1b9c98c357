"""Rounds of one device that holds every image: the same local training as a fleet's.

A round is what the fleet's devices do and what its coordinator makes of it, through both sides of
the method, for a single device that has forgotten no picture. So the only difference to a fleet is
where the images are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fleetledger.coordinator.models.file_offers import offer_of
from fleetledger.learning.networks.network import Network
from fleetledger.methods.registry import training_coordinator, training_device
from fleetledger.methods.training import exchange as training
from fleetledger.schemas.rounds import RoundOrder
from fleetledger.schemas.values import ClassName, DeviceId
from fleetledger.simulator.engines.network_inputs import SampleInputs
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.scenario.trainer import JOINT, Trainer
from fleetledger.simulator.virtual.training import TrainerPoolSettings

_DEADLINE_SECONDS = 1e9


@dataclass(frozen=True)
class RoundOfAll:
    """One round of one stage."""

    stage: int
    number: int
    """Over all stages."""
    of_stage: int
    rounds: int
    """Of the stage."""
    class_names: tuple[ClassName, ...]
    """Of all stages so far."""


class JointTraining:
    """Trains one network; states are bytes, so a run can go on from any of them."""

    def __init__(
        self, trainer: Trainer, sight: SampleInputs, seed: int, trainers: TrainerPoolSettings
    ) -> None:
        self._seed = seed
        self._settings = trainers.for_torch()
        self._sight = sight
        self._coordinator = training_coordinator(trainer.method)
        self._device = training_device(trainer.method)
        self.assignment = self._coordinator.assign(trainer.seeded(seed), sight.shape)
        self._own = self._device.read_assignment(self.assignment.model_dump(mode="json"))

    def first_weights(self) -> bytes:
        """Return the network before training."""
        return self._coordinator.first_weights(self.assignment)

    def names(self, weights: bytes) -> tuple[ClassName, ...]:
        """Return the rows of the head."""
        return self.network(weights)[2]

    def network(self, weights: bytes) -> tuple[Network, Any, tuple[ClassName, ...]]:
        """Return network, tensors and rows of the head."""
        network, arrays, names = self._coordinator.network_of(self.assignment, weights)
        assert isinstance(network, Network)
        return network, arrays, names

    def round(
        self, round_: RoundOfAll, weights: bytes, data: training.LocalData
    ) -> tuple[training.RoundOutcome, float | None]:
        """Return what a round makes of weights, and its loss; raise `EngineError` without data."""
        answer = self._answer(round_, weights, data)
        config = training.RoundConfig(
            phase="train",
            round_of_stage=round_.of_stage,
            rounds_of_stage=round_.rounds,
            weights=weights,
            weights_class_names=self.names(weights),
            class_names=round_.class_names,
        )
        self._coordinator.check(self.assignment, answer.payload, config)
        given = training.CountedUpdate(sum(answer.samples.values()), lambda: answer.payload)
        return self._coordinator.combine(self.assignment, config, [given]), answer.loss

    def _answer(
        self, round_: RoundOfAll, weights: bytes, data: training.LocalData
    ) -> training.ClientUpdate:
        from fleetledger.learning.training.engine import train  # noqa: PLC0415 - needs torch

        instruction = self._order(round_, weights)
        job = self._device.begin(self._own, instruction, data, None, self._sight.pictures())
        if job is None or job.work is None:
            raise EngineError("joint: fewer than two images to train on; give the stage more")
        (trained,) = train([job.work], self._settings)
        return self._device.finish(self._own, job, trained)

    def _order(self, round_: RoundOfAll, weights: bytes) -> training.FitInstruction:
        return training.FitInstruction(
            stage=round_.stage,
            stage_class_names=round_.class_names,
            round=RoundOrder(
                number=round_.number,
                round_of_stage=round_.of_stage,
                rounds_of_stage=round_.rounds,
                weights=offer_of(weights),
                weights_class_names=self.names(weights),
                class_names=round_.class_names,
                seed=self._seed,
                deadline_seconds=_DEADLINE_SECONDS,
            ),
            weights=weights,
            extras={},
            device=DeviceId(JOINT),
        )
