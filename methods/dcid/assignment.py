"""What both sides are told of a fleet that learns with DCID, and the phases that follow from it.

| phase | when | a site answers | what becomes of it |
| --- | --- | --- | --- |
| share | before a session's rounds, where sites share images | images | the shared set S |
| imprint | likewise, where new rows are to be equal | sums of new images' features | new rows |
| train | in a round with DCD | logits on S of its model after DID | the ensemble's logits |
| distil | likewise | weights, and with DAD logits on S | the mean, distilled by DAD |
| train-alone | in a round without DCD | the same | the same |
| means | after a session's rounds, for nearest means | sums of anchors' features | class means |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.learning.networks.network import Network
from fleetledger.methods.dcid.settings import DcidSettings
from fleetledger.methods.training.assignment import (
    TrainingAssignment,
    check_whole_network,
    named_network,
    refuse_features,
)
from fleetledger.schemas.rounds import TRAIN

SHARE = "share"
IMPRINT = "imprint"
DISTIL = "distil"
TRAIN_ALONE = "train-alone"
MEANS = "means"

OLD_MODEL = "old-model"
"""The extra file with the fleet's model at the end of the session before, theta^(t-1)."""
ENSEMBLE = "ensemble"
"""The extra file with the ensemble's logits on the shared set."""


class DcidAssignment(TrainingAssignment[DcidSettings]):
    """Settings, and the shape of a picture; the same for all sites."""

    kind: ClassVar[str] = "dcid-assignment"
    input_shape: tuple[int, ...] = Field(min_length=3, max_length=3)
    """Channels, height and width of a picture."""

    @model_validator(mode="after")
    def _knows_the_network(self) -> Self:
        settings = self.settings
        check_whole_network(settings, self.input_shape, "DCID", settings.head_kind)
        return self

    @property
    def network(self) -> Network:
        """The network that is trained."""
        return named_network(self.settings, self.input_shape, self.settings.head_kind)

    @property
    def opening_phases(self) -> tuple[str, ...]:
        """Sites share images once in a session, where the shared set is theirs.

        They tell sums of features where rows of new classes are to be equal at all of them.
        """
        settings = self.settings
        share = (SHARE,) if settings.shares and settings.shared_set == "devices" else ()
        return (*share, IMPRINT) if settings.imprints_together else share

    @property
    def round_phases(self) -> tuple[str, ...]:
        """Sites train, and where they collaborate, distil from the ensemble of all."""
        return (TRAIN, DISTIL) if self.settings.collaborates else (TRAIN_ALONE,)

    @property
    def closing_phases(self) -> tuple[str, ...]:
        """Sites measure their anchors under the general model, where nearest means are wanted."""
        return (MEANS,) if self.settings.evaluation == "nearest-mean" else ()

    @property
    def first_weights_suffice(self) -> bool:
        """Whether a stage whose classes lie in imported first weights needs no rounds."""
        return self.settings.base == "central"

    @property
    def needs_shared(self) -> bool:
        """Whether images to distil on are given with the network."""
        return self.settings.shares and self.settings.shared_set == "public"

    @property
    def coordinator_trains(self) -> bool:
        """Whether the coordinator needs torch: for DAD, or to measure running statistics."""
        own = self.settings.aggregates or self.settings.re_estimates
        return own or super().coordinator_trains

    def round_within(self, round_of_stage: int) -> int:
        """Return which of a session's rounds, from 0, a phase of a round belongs to."""
        return (round_of_stage - 1 - len(self.opening_phases)) // len(self.round_phases)

    @classmethod
    def from_values(cls, body: Mapping[str, object]) -> Self:
        """Return an assignment from JSON values; raise `MethodError` naming field and value."""
        refuse_features(body, "DCID")
        return super().from_values(body)
