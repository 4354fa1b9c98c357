"""What a method that trains is: a class for each of its sides.

`begin` of the device side says what is to be trained and `finish` makes the update of it; in
between an engine of `learning.training` runs, on a device for one agent and in a simulator for
many. The coordinator side checks updates and combines them. Nothing here imports torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import NetworkError
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.segmentation.network import SegmentationNetwork
from fleetledger.methods.errors import MethodError
from fleetledger.methods.settings import refuse_unknown
from fleetledger.methods.steps import TakesSteps
from fleetledger.methods.training.assignment import AveragedSettings, TrainingAssignment
from fleetledger.methods.training.exchange import (
    BufferStep,
    ClientUpdate,
    CountedUpdate,
    FitInstruction,
    FitJob,
    LocalData,
    Observed,
    RoundConfig,
    RoundOutcome,
    RoundParts,
    StaleUpdates,
    Summing,
)
from fleetledger.methods.training.network_weights import Arrays, decode_weights, encode_weights
from fleetledger.schemas.values import ClassName

if TYPE_CHECKING:
    from fleetledger.learning.networks.pictures import Pictures
    from fleetledger.learning.training.settings import TrainingEngineSettings
    from fleetledger.learning.training.shared_inference import InferenceRequest
    from fleetledger.learning.training.work import Trained

AnyTrainingAssignment = TrainingAssignment[AveragedSettings]
"""What both sides of any method that trains are told."""
Assignment = TypeVar("Assignment", bound=AnyTrainingAssignment)
State = TypeVar("State")


class TrainingDevice(TakesSteps[Assignment], ABC, Generic[Assignment, State]):
    """The device side; its module imports torch. `State` is what `finish` has to know."""

    def read_assignment(self, body: Mapping[str, object]) -> Assignment:
        """Return the assignment that the coordinator side dumped; raise `MethodError`."""
        return self.assignment_type.from_values(body)

    @abstractmethod
    def begin(
        self,
        assignment: Assignment,
        instruction: FitInstruction,
        data: LocalData,
        memory: bytes | None,
        pictures: Pictures | None,
        engine: TrainingEngineSettings | None = None,
    ) -> FitJob[State] | None:
        """Return what is to be trained, or None where there is nothing; raise `MethodError`.

        `pictures` says how uint8 pictures become inputs; None where the data are features.
        `engine` says where networks are computed here, in `finish` and in `measured` of the job,
        too; None: on the processor.
        """

    @abstractmethod
    def finish(self, assignment: Assignment, job: FitJob[State], trained: Trained) -> ClientUpdate:
        """Return the update; raise `MethodError` where training left the numbers."""

    def shared_requests(
        self,
        assignment: Assignment,
        instruction: FitInstruction,
        data: LocalData,
        memory: bytes | None,
        pictures: Pictures | None,
        engine: TrainingEngineSettings,
    ) -> Sequence[InferenceRequest]:
        """Return what `observe` and `begin` would ask of networks that all devices share.

        Whoever has the looks of many devices computed together gives them to both as
        `engine.shared_inference`. Nothing by default: then each device looks by itself. Raises
        `MethodError`.
        """
        return ()

    def measured(self, assignment: Assignment, job: FitJob[State]) -> ClientUpdate:
        """Return the update of a phase that only measures; raise `MethodError`."""
        raise MethodError(f"phase: {type(self).__name__} measures in none")


class ObservingDevice(TrainingDevice[Assignment, State]):
    """The device side of methods whose descriptor says `observes`."""

    @abstractmethod
    def observe(
        self,
        assignment: Assignment,
        instruction: FitInstruction,
        data: LocalData,
        memory: bytes | None,
        pictures: Pictures | None,
        engine: TrainingEngineSettings | None = None,
    ) -> Observed | None:
        """Return what the fleet's model makes of the images, or None where there are none.

        Asked of devices that do not train in the round; those that do tell it with their update.
        Raises `MethodError`.
        """


def expect_pictures(
    assignment: AnyTrainingAssignment, data: LocalData, pictures: Pictures | None
) -> Pictures:
    """Return how pictures become inputs; refuse samples that are none of the fleet's pictures."""
    inputs = data.inputs
    if pictures is None or inputs.dtype != np.uint8 or inputs.shape[1:] != assignment.input_shape:
        raise MethodError(
            f"samples: {inputs.dtype} {inputs.shape[1:]}, and this fleet trains on uint8 pictures "
            f"{assignment.input_shape}"
        )
    return pictures


class TrainingCoordinator(TakesSteps[Assignment], ABC):
    """The coordinator side; its module needs no torch."""

    def assign(self, settings: Mapping[str, object], input_shape: tuple[int, ...]) -> Assignment:
        """Return the assignment of a lineage; raise `MethodError` naming the field that is wrong.

        `input_shape` is that of one sample: a picture (c, h, w), or (d,) where the network is
        trained on the features of a frozen backbone.
        """
        refuse_unknown(self.assignment_type, settings)
        return self.read_assignment({"settings": dict(settings), "input_shape": list(input_shape)})

    def read_assignment(self, body: Mapping[str, object]) -> Assignment:
        """Return a dumped assignment; raise `MethodError`."""
        return self.assignment_type.from_values(body)

    def first_weights(self, assignment: Assignment) -> bytes:
        """Return the network before anybody trained; its head has no row yet.

        Raises `MethodError` for a network from outside that cannot be made.
        """
        try:
            arrays = assignment.network.initial(assignment.settings.seed, ())
        except NetworkError as error:
            raise MethodError(f"settings.network: {error}") from error
        return encode_weights(arrays, ())

    @abstractmethod
    def check(self, assignment: Assignment, payload: bytes, config: RoundConfig) -> None:
        """Raise `ContributionError` unless the payload answers what was asked."""

    @abstractmethod
    def summing(self, assignment: Assignment, config: RoundConfig, most: int) -> Summing:
        """Return the empty sum of at most so many updates; `MethodError` if it may not fit."""

    @abstractmethod
    def combine(
        self,
        assignment: Assignment,
        config: RoundConfig,
        updates: Sequence[CountedUpdate] | Summing,
    ) -> RoundOutcome:
        """Return what a round's updates became, at least one, or a sum that `summing` began.

        Raises `MethodError` where their sum could not be exact.
        """

    def combine_stale(
        self,
        assignment: Assignment,
        config: RoundConfig,
        step: BufferStep,
        groups: Sequence[StaleUpdates],
    ) -> RoundOutcome:
        """Return what the updates of an asynchronous round became, for descriptors that allow it.

        `config` is the round whose weights are the newest. Raises `MethodError`.
        """
        raise MethodError(f"asynchronous: {type(self).__name__} waits for all of a round")

    def parts_of(
        self, assignment: Assignment, config: RoundConfig, updates: Sequence[CountedUpdate]
    ) -> RoundParts | None:
        """Return the models in a round's updates, at least one, and their mean.

        None where updates hold no models, or the method does not tell them apart. For simulators,
        which compare; no coordinator asks.
        """
        del assignment, config, updates
        return None

    def shared_of(self, assignment: Assignment, images: npt.NDArray[np.uint8]) -> bytes:
        """Return the extra file `SHARED` of pictures (N, c, h, w) that the operator gives.

        For methods whose assignments may say `needs_shared`. Raises `MethodError`.
        """
        raise MethodError(f"shared: {type(self).__name__} uses no images of the operator")

    def network_of(
        self, assignment: Assignment, weights: bytes
    ) -> tuple[Network | SegmentationNetwork, Arrays, tuple[ClassName, ...]]:
        """Return network, tensors by name and rows of the head, to be exported."""
        network = assignment.network
        return (network, *decode_weights(weights, network))


AnyTrainingDevice = TrainingDevice[AnyTrainingAssignment, object]
AnyTrainingCoordinator = TrainingCoordinator[AnyTrainingAssignment]
"""Whose it is, is known by its name alone."""
