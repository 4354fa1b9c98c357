"""What devices, coordinator and proxy are told of a fleet that learns with LGA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.learning.networks.network import Network
from fleetledger.methods.lga.settings import LgaSettings
from fleetledger.methods.lga.steps import Lga
from fleetledger.methods.training.assignment import (
    TrainingAssignment,
    check_whole_network,
    named_network,
    refuse_features,
)

if TYPE_CHECKING:
    from fleetledger.methods.lga.encoding import Encoding
    from fleetledger.methods.lga.proxy import ProxyRules

OLD_MODEL = "old-model"
"""The extra file with the best model of the task before: the old model of devices in the task."""
NEW_MODEL = "new-model"
"""The extra file with the best model of the present task: the old model of devices that enter the
next one."""

_SMALLEST_SIDE = 4


class LgaAssignment(TrainingAssignment[LgaSettings]):
    """Settings, and the shape of a picture; the same for all."""

    kind: ClassVar[str] = "lga-assignment"
    steps_type = Lga
    input_shape: tuple[int, ...] = Field(min_length=3, max_length=3)
    """Channels, height and width of a picture."""

    @model_validator(mode="after")
    def _knows_the_network(self) -> Self:
        settings, shape = self.settings, self.input_shape
        check_whole_network(settings, shape, "LGA")
        if settings.has_proxy and (shape[1] != shape[2] or shape[1] < _SMALLEST_SIDE):
            raise ValueError(
                f"input_shape: {shape}, and gradients are made of square pictures of at least "
                f"{_SMALLEST_SIDE} pixels a side; change the preprocessing, or set old_model to "
                "'random', which needs no proxy"
            )
        return self

    @property
    def network(self) -> Network:
        """The network that is trained."""
        return named_network(self.settings, self.input_shape)

    @property
    def has_proxy(self) -> bool:
        """Whether this fleet needs a proxy."""
        return self.settings.has_proxy

    @property
    def everybody_observes(self) -> bool:
        """Whether devices outside a round's cohort look for new tasks too."""
        return self.settings.observers == "all"

    @property
    def encoding(self) -> Encoding:
        """The gradient encoding network Gamma; needs torch."""
        from fleetledger.methods.lga.encoding import Encoding  # noqa: PLC0415 - needs torch

        channels, side, _ = self.input_shape
        return Encoding(channels, side, self.settings.reserved, self.settings.seed)

    @property
    def proxy_rules(self) -> ProxyRules:
        """What the proxy does with gradients and models; needs torch."""
        from fleetledger.methods.lga.inversion import SEARCH, InversionSettings  # noqa: PLC0415 - needs torch
        from fleetledger.methods.lga.proxy import ProxyRules  # noqa: PLC0415
        from fleetledger.methods.lga.scoring import AugmentationSettings  # noqa: PLC0415
        from fleetledger.methods.lga.slots import SlotRules  # noqa: PLC0415

        settings = self.settings
        search = replace(
            SEARCH,
            rate=settings.inversion_rate,
            steps=settings.inversion_steps or SEARCH.steps,
            inner=settings.inversion_inner,
        )
        return ProxyRules(
            encoding=self.encoding,
            inversion=InversionSettings(search, settings.inversion_kept, settings.inversion_start),
            augmentation=AugmentationSettings(
                settings.draws, settings.xi, settings.square_root, settings.radius == "released"
            ),
            slots=SlotRules(
                best=settings.old_model == "best",
                shift_always=settings.slots_shift == "always",
                begin_anew=settings.slots_reset,
                ignored_rounds=settings.ignored_rounds,
            ),
            worst_distance=settings.worst_distance,
        )

    @classmethod
    def from_values(cls, body: Mapping[str, object]) -> Self:
        """Return an assignment from JSON values; raise `MethodError` naming field and value."""
        refuse_features(body, "LGA")
        return super().from_values(body)
