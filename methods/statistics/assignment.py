"""The base of what a method of statistics tells a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.methods.errors import MethodError
from fleetledger.methods.statistics.part_settings import PartSettings
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.contributions import MAX_CLASSES
from fleetledger.schemas.message import Message, is_absent
from fleetledger.schemas.models import MAX_FEATURES
from fleetledger.schemas.privacy import Noise
from fleetledger.schemas.values import ClassName

SettingsT_co = TypeVar("SettingsT_co", bound=PartSettings, covariant=True)


class FeatureAssignment(Message, Generic[SettingsT_co]):
    """Settings, and the width of the backbone's features; the same for all devices.

    A method subclasses it with its own settings and a `kind`.
    """

    settings: SettingsT_co
    feature_width: int = Field(ge=1, le=MAX_FEATURES)
    """d, the number of features that the backbone puts out."""
    class_names: tuple[ClassName, ...] = Field(default=(), max_length=MAX_CLASSES)
    """Classes that may occur; none given means any."""
    noise: Noise | None = Field(default=None, exclude_if=is_absent)
    """Differential privacy of a part; a method that has none refuses it."""
    takes_noise: ClassVar[bool] = False
    """Whether the method's parts can have noise of differential privacy."""

    @property
    def columns(self) -> int:
        """M, the number of features h of a sample; d where no map follows the backbone."""
        return self.feature_width

    def masked_form(self) -> str | None:
        """Return the form of parts that are summed behind masks; None for the only one.

        Raises `MethodError` where parts are not sums of integers, which alone can be.
        """
        raise MethodError(
            f"masks: parts of {self.kind.removesuffix('-assignment')!r} are not summed behind "
            "masks; set [privacy] masks = false, or take stsa in the form 'exact' or fed3r"
        )

    @classmethod
    def from_values(cls, body: Mapping[str, object]) -> Self:
        """Return the assignment that `model_dump` wrote, as a ledger or a message holds it.

        Raises `MethodError` naming the field that is wrong.
        """
        try:
            return cls.read(dict(body))
        except SchemaError as error:
            raise MethodError(f"assignment: {error}") from error

    @model_validator(mode="after")
    def _can_have_noise(self) -> Self:
        if self.noise is not None and not self.takes_noise:
            raise ValueError(
                "noise: this method's parts cannot have noise of differential privacy; take stsa "
                "in the form 'exact' or fed3r, or leave out [privacy] protects"
            )
        if self.noise is not None and self.settings.min_samples_per_class > 1:
            raise ValueError(
                f"noise: with a min_samples_per_class of {self.settings.min_samples_per_class} a "
                "part's moment would tell how many images there are; give 1, since noise hides "
                "single ones (stsa: hold_back = false)"
            )
        return self

    @classmethod
    def of(
        cls, settings: Mapping[str, object], feature_width: int, noise: Noise | None = None
    ) -> Self:
        """Return the assignment of a lineage: an operator's settings and the backbone's width d.

        Raises `MethodError` likewise.
        """
        values = {"settings": dict(settings), "feature_width": feature_width}
        return cls.from_values(values if noise is None else values | {"noise": noise.model_dump()})
