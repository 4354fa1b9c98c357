"""How an array of numbers becomes the input tensor: sensor windows, rows, spectrograms."""

from __future__ import annotations

from math import prod
from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.message import Items
from fleetledger.schemas.text import TensorName

MAX_RANK = 8
"""Axes of one sample."""
MAX_ARRAY_NUMBERS = 1 << 20
"""Numbers of one sample: 4 MiB. A golden batch holds eight."""
MAX_MEANS = 1 << 16

Axis = Annotated[int, Field(ge=1, le=MAX_ARRAY_NUMBERS)]
Shape = Annotated[tuple[Axis, ...], Field(min_length=1, max_length=MAX_RANK)]
"""Shape of one sample, without an axis of samples."""


class ArrayPreprocessing(Strict):
    """How an array becomes the input tensor; `learning.numerics.preprocessing` applies it.

    The values are float32: subtract `mean`, divide by `deviation`. Both are one number, or one for
    each entry of the first axis, such as a sensor's channels or a table's columns.
    """

    mode: Literal["array"]
    shape: Shape
    """Shape of one sample, such as [6, 128] for 6 channels of 128 moments."""
    mean: Items[float] = Field(default=(0.0,), min_length=1, max_length=MAX_MEANS)
    """One number, or one for each entry of the first axis."""
    deviation: Items[Annotated[float, Field(gt=0)]] = Field(
        default=(1.0,), min_length=1, max_length=MAX_MEANS
    )
    """One number, or one for each entry of the first axis."""
    input_name: TensorName
    """Name of the model's one input."""
    dtype: Literal["float32"] = "float32"

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if prod(self.shape) > MAX_ARRAY_NUMBERS:
            raise ValueError(
                f"shape: {list(self.shape)} is {count_of(prod(self.shape), 'number')}; give a "
                f"sample at most {MAX_ARRAY_NUMBERS:,}, or shorter windows"
            )
        for field, values in (("mean", self.mean), ("deviation", self.deviation)):
            if len(values) not in (1, self.shape[0]):
                raise ValueError(
                    f"{field}: {count_of(len(values), 'number')} for shape {list(self.shape)}; "
                    f"give one, or one for each entry of the first axis, {self.shape[0]}"
                )
        return self
