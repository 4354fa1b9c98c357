"""What both sides are told of a fleet that trains in rounds."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from pydantic import model_validator
from typing_extensions import Self

from fleetledger.learning.errors import LearningError
from fleetledger.learning.networks.module_body import ModuleBody
from fleetledger.learning.networks.network import Network
from fleetledger.methods.rounds.settings import RoundsSettings
from fleetledger.methods.rounds.steps import Rounds
from fleetledger.methods.training.assignment import TrainingAssignment, named_network
from fleetledger.methods.training.private_updates import UpdatePrivacy
from fleetledger.runtime.count_words import count_of

OLD_MODEL = "old-model"
"""The extra file with the fleet's weights at the end of the stage before."""
FISHER = "fisher"
"""The phase after a stage's rounds in which devices measure how much each weight matters, and the
extra file with what came of it."""
SYNTHETIC = "synthetic"
"""The extra file with synthetic images, which the coordinator made after the stage before."""
CALIBRATE = "calibrate"
"""The phase after a stage's rounds in which devices correct the head."""

_LARGEST_FILE = 64 << 20
"""Bytes of synthetic images."""


class RoundsAssignment(TrainingAssignment[RoundsSettings]):
    """Settings, and the shape of one sample; the same for all devices."""

    kind: ClassVar[str] = "rounds-assignment"
    steps_type = Rounds
    adds_answers: ClassVar[bool] = True

    @model_validator(mode="after")
    def _knows_the_network(self) -> Self:
        settings, shape = self.settings, self.input_shape
        try:
            network = named_network(settings, shape, settings.head)
        except LearningError as error:
            raise ValueError(
                f"settings.network: {settings.network!r} cannot take {_seen(shape)}: {error}"
            ) from error
        if len(shape) != 3 and (settings.pad or settings.flip):
            raise ValueError(
                f"settings: pad and flip change pictures, and this network sees {_seen(shape)}; "
                "leave them out"
            )
        if settings.generator is not None:
            _check_generated(settings.network, network, shape, settings.generator.images)
        return self

    @property
    def is_weighted(self) -> bool:
        """Whether answers are weighed; where they are clipped, each counts alike."""
        return self.settings.privacy is None and super().is_weighted

    @property
    def privacy(self) -> UpdatePrivacy | None:
        """How answers are clipped, and which noise hides them."""
        return self.settings.privacy

    @property
    def coordinator_trains(self) -> bool:
        """Whether the coordinator needs torch: to make synthetic images."""
        return self.settings.generator is not None or super().coordinator_trains

    @property
    def network(self) -> Network:
        """The network that is trained."""
        return named_network(self.settings, self.input_shape, self.settings.head)

    @property
    def closing_phases(self) -> tuple[str, ...]:
        """Phases after a stage's rounds."""
        corrected = (CALIBRATE,) if self.settings.calibrates else ()
        return (*corrected, FISHER) if self.settings.ewc > 0 else corrected


def _check_generated(name: str, network: Network, shape: tuple[int, ...], images: int) -> None:
    """Raise `ValueError` unless pictures can be made for the network, and in bounds."""
    body = network.body
    foreign = len(shape) != 3 or isinstance(body, ModuleBody) or bool(body.base_plan())
    if foreign or not any(plan.name.endswith("running_mean") for plan in body.plan()):
        raise ValueError(
            "settings.generator: makes pictures by the statistics of a network of the package with "
            f"batch normalisation, trained as a whole, and {name!r} on {_seen(shape)} is none; "
            "give network = 'resnet8', or leave generator out"
        )
    most = _LARGEST_FILE // prod(shape)
    if images > most:
        raise ValueError(
            f"settings.generator.images: {images} of shape {shape} are more than "
            f"{_LARGEST_FILE >> 20} MiB; give {most} at most"
        )


def _seen(shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return f"the {count_of(shape[0], 'feature')} of a frozen backbone"
    return f"{'pictures' if len(shape) == 3 else 'arrays'} of shape {shape}"
