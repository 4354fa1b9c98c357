"""What both sides are told."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from pydantic import Field

from fleetledger.learning.networks.mlp import Mlp
from fleetledger.learning.networks.network import Network
from fleetledger.methods.training.assignment import AveragedSettings, TrainingAssignment
from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.network_weights import decode_weights, grown
from fleetledger.schemas.values import ClassName


class EchoSettings(AveragedSettings):
    """The size of the network."""

    hidden: tuple[int, ...]


class EchoAssignment(TrainingAssignment[EchoSettings]):
    """Settings, and the shape of the pictures."""

    kind: ClassVar[str] = "echo-assignment"
    input_shape: tuple[int, int, int] = Field(min_length=3, max_length=3)

    @property
    def network(self) -> Network:
        """A multilayer perceptron, without normalisation."""
        shape = self.input_shape
        return Network(Mlp(prod(shape), self.settings.hidden, normalised=False, axes=len(shape)))


def frame_of(
    assignment: EchoAssignment,
    weights: bytes,
    known: Sequence[ClassName],
    names: Sequence[ClassName],
) -> UpdateFrame:
    """Return what answers look like, around the sent weights with the head's new rows."""
    arrays, _ = decode_weights(weights, assignment.network)
    return UpdateFrame(grown(arrays, known, names, assignment.settings.seed))
