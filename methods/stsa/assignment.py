"""What a device is told under STSA, and the proof that the fleet's sums stay exact."""

from __future__ import annotations

from math import sqrt
from typing import ClassVar

from pydantic import model_validator
from typing_extensions import Self

from fleetledger.learning.errors import RangeError
from fleetledger.learning.numerics.compact import RowSteps, prove_factor
from fleetledger.learning.numerics.exactness import prove_sum
from fleetledger.methods.errors import MethodError
from fleetledger.methods.statistics.assignment import FeatureAssignment
from fleetledger.methods.statistics.private_moments import largest_noise, noise_of
from fleetledger.methods.stsa.noise import NoiseSizes
from fleetledger.methods.stsa.settings import MAX_COLUMNS, Form, StsaSettings

TRIANGLE_BITS = 48
"""Most bits of a value of a triangle or of a class sum."""


class StsaAssignment(FeatureAssignment[StsaSettings]):
    """Settings, and the width of the backbone's features; the same for all devices.

    It cannot be made unless the sums of `max_contributions` parts of `max_samples_per_part`
    samples are proven exact, in every form that is allowed.
    """

    kind: ClassVar[str] = "stsa-assignment"
    takes_noise: ClassVar[bool] = True

    @property
    def columns(self) -> int:
        """M, the number of features h of a sample."""
        return self.feature_width if self.settings.map == "none" else self.settings.map_width

    @property
    def integer(self) -> bool:
        """Whether features h are integers."""
        return self.settings.map != "gaussian"

    @property
    def lowest(self) -> int:
        """The smallest integer feature: behind a map, h = relu(..) is not negative."""
        return -self.settings.largest if self.settings.map == "none" else 0

    def masked_form(self) -> str:
        """Return the form whose sums are integers; raise `MethodError` where none is."""
        settings = self.settings
        if not self.integer or settings.noise != "none" or "exact" not in settings.allowed_forms:
            raise MethodError(
                "masks: parts are summed behind masks in the form 'exact', behind an integer map "
                "or none, without the method's own noise; allow that form, or set "
                "[privacy] masks = false"
            )
        return "exact"

    @property
    def row_steps(self) -> RowSteps:
        """How rows of the R factor are rounded; the coarsest step holds any honest row.

        No entry of R exceeds the length of its column of H, at most sqrt(n) times the largest
        feature; a thousandth is allowed for rounding errors of the factorisation.
        """
        settings = self.settings
        largest_row = sqrt(settings.max_samples_per_part) * settings.largest * 1.001
        return RowSteps.covering(settings.compact_bits, settings.compact_finest, largest_row)

    @property
    def gram_exponent(self) -> int:
        """The step of the fleet's Gram matrix, as an exponent of 2: the finest of any form."""
        return min(self._steps(form)[0] for form in self.settings.allowed_forms)

    @property
    def correlation_exponent(self) -> int:
        """The step of the fleet's class sums, as an exponent of 2."""
        return 0 if self.integer else self.settings.gaussian_steps[0]

    def largest_gram(self, form: Form) -> int:
        """Return a bound on one part's Gram matrix, in steps of its own."""
        settings = self.settings
        samples = settings.max_samples_per_part
        if form == "estimated":
            return 0
        if form == "compact":
            return prove_factor(samples, self.columns, settings.largest, self.row_steps)
        if self.integer:
            private = noise_of(self)
            noise = NoiseSizes.of(settings).gram if private is None else private.gram
            return samples * settings.largest**2 + largest_noise(noise)
        return (1 << (TRIANGLE_BITS - 1)) - 1

    def _steps(self, form: Form) -> tuple[int, int]:
        """Return the exponents of the finest and the coarsest step of a part's Gram matrix."""
        if form == "compact":
            return 2 * self.settings.compact_finest, 2 * self.settings.compact_finest
        return (0, 0) if self.integer else self.settings.gaussian_steps

    @model_validator(mode="after")
    def _features_are_not_too_many(self) -> Self:
        if self.columns > MAX_COLUMNS:
            raise ValueError(
                f"feature_width: {self.columns}; without a map at most {MAX_COLUMNS} are allowed, "
                "so use a map"
            )
        return self

    @model_validator(mode="after")
    def _noise_is_consistent(self) -> Self:
        if self.noise is None:
            return self
        settings = self.settings
        if settings.allowed_forms != ("exact",) or not self.integer or settings.noise != "none":
            raise ValueError(
                "noise: of differential privacy needs form 'exact' alone, integer features and the "
                "method's own noise 'none'; set [method.settings] form = 'exact'"
            )
        if settings.ridge == "from-sums":
            raise ValueError(
                "noise: of differential privacy brings a ridge of its own; give ridge a number or "
                "leave it out"
            )
        return self

    @model_validator(mode="after")
    def _sums_are_exact(self) -> Self:
        for form in self.settings.allowed_forms:
            shift = self._steps(form)[1] - self.gram_exponent
            try:
                largest = self.largest_gram(form)
                prove_sum("gram", largest, shift, self.settings.contribution_limit)
            except RangeError as error:
                raise ValueError(str(error)) from error
        return self
