"""What devices and coordinator are told of a fleet that learns with FBL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.learning.errors import LearningError
from fleetledger.learning.networks.segmentation.network import SegmentationNetwork
from fleetledger.learning.networks.segmentation.registry import build_segmentation
from fleetledger.methods.fbl.settings import FblSettings
from fleetledger.methods.training.assignment import TrainingAssignment, refuse_features

OLD_MODEL = "old-model"
"""The extra file with the fleet's last model before the newest classes were registered."""


class FblAssignment(TrainingAssignment[FblSettings]):
    """Settings, and the shape of a picture; the same for all."""

    kind: ClassVar[str] = "fbl-assignment"
    input_shape: tuple[int, ...] = Field(min_length=3, max_length=3)
    """Channels, height and width of a picture."""

    @model_validator(mode="after")
    def _knows_the_network(self) -> Self:
        try:
            build_segmentation(self.settings.network, self.input_shape)
        except LearningError as error:
            raise ValueError(f"settings.network: {error}") from error
        return self

    @property
    def network(self) -> SegmentationNetwork:
        """The network that is trained."""
        settings = self.settings
        return build_segmentation(settings.network, self.input_shape, settings.frozen_norm)

    @property
    def first_weights_suffice(self) -> bool:
        """Whether a stage whose classes lie in imported first weights needs no rounds."""
        return self.settings.base == "central"

    @property
    def everybody_observes(self) -> bool:
        """Whether devices outside a round's cohort look for new tasks too."""
        return self.settings.observers == "all"

    @classmethod
    def from_values(cls, body: Mapping[str, object]) -> Self:
        """Return an assignment from JSON values; raise `MethodError` naming field and value."""
        refuse_features(body, "FBL")
        return super().from_values(body)
