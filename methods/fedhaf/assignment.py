"""What both sides are told of a fleet that trains an adapter and a head on frozen features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field
from typing_extensions import Self

from fleetledger.learning.networks.body import Body
from fleetledger.learning.networks.feature_adjustment import FeatureAdjustment
from fleetledger.learning.networks.fixed_features import FixedProjection, IdentityBody
from fleetledger.learning.networks.network import Network
from fleetledger.methods.errors import MethodError
from fleetledger.methods.fedhaf.settings import FedHafSettings
from fleetledger.methods.training.assignment import TrainingAssignment

OLD_MODEL = "old-model"
"""The extra file with the fleet's weights at the end of the stage before: theta_{t-1}."""


class FedHafAssignment(TrainingAssignment[FedHafSettings]):
    """Settings, and the number of features; the same for all devices."""

    kind: ClassVar[str] = "fedhaf-assignment"
    adds_answers: ClassVar[bool] = True
    input_shape: tuple[int] = Field(min_length=1, max_length=1)
    """Number of the backbone's features."""

    @property
    def features(self) -> int:
        """Number of the backbone's features d."""
        return self.input_shape[0]

    @property
    def network(self) -> Network:
        """The network that is trained: adapter and head."""
        return Network(self._body(), "hidden", self.settings.dropout)

    def _body(self) -> Body:
        settings, inputs = self.settings, self.features
        if settings.adapter == "none":
            return IdentityBody(inputs)
        if settings.adapter == "projection":
            return FixedProjection(inputs, settings.width, settings.seed)
        return FeatureAdjustment(
            inputs, settings.hidden, settings.width, settings.shortcut, settings.dropout
        )

    @classmethod
    def from_values(cls, body: Mapping[str, object]) -> Self:
        """Return an assignment from JSON values; raise `MethodError` naming field and value."""
        shape = body.get("input_shape", ())
        if isinstance(shape, list | tuple) and len(shape) > 1:
            raise MethodError(
                f"input_shape: {tuple(shape)} are pictures, and fedhaf trains on the features of a "
                "frozen backbone; import the network with one"
            )
        return super().from_values(body)
