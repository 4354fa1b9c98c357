"""Masks: pictures whose pixels are numbers of classes, and `classes.toml` with their names.

A mask is a PNG of palette indices or of 8-bit grey values, uint8 (h, w): 0 is background, 255 is
left out of everything, each other value is a class. The colours of a palette mean nothing.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.device_agent.errors import SourceError
from fleetledger.learning.errors import ImageError
from fleetledger.learning.numerics.preprocessing import check_pixels, open_picture
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.settings_file import SettingsError, load_settings
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.models import BACKGROUND as BACKGROUND_NAME
from fleetledger.schemas.values import ClassName

BACKGROUND, IGNORED = 0, 255
_DEPTH_AT = 24
"""Where a PNG file says how many bits a value has."""
Written = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]*)$")]
"""A value as TOML has it, whose keys are text."""


def decode_mask(data: bytes) -> NDArray[np.uint8]:
    """Return the values of a mask, uint8 (h, w); raise `ImageError` if the file is no mask.

    Grey values of fewer than 8 bits are refused, because Pillow would stretch them to 0..255.
    """
    try:
        image = open_picture(data)
        check_pixels(image)
    except ImageError as error:
        raise ImageError(f"mask: {str(error).removeprefix('image: ')}") from error
    if image.format != "PNG":
        raise ImageError(f"mask: a {image.format} file; save it as a PNG of palette indices")
    if image.mode != "P" and (image.mode, data[_DEPTH_AT]) != ("L", 8):
        raise ImageError(
            f"mask: a PNG of mode {image.mode} with {count_of(data[_DEPTH_AT], 'bit')} a value; "
            "save palette indices, or grey with 8 bits"
        )
    try:
        image.load()
    except (OSError, ValueError, SyntaxError, EOFError, struct.error, zlib.error) as error:
        raise ImageError(
            f"mask: the picture is damaged ({error}); replace the file or copy it again"
        ) from error
    return np.array(image, np.uint8)


def values_in(mask: NDArray[np.uint8]) -> list[int]:
    """Return the values that a mask has, ascending, background and 255 among them."""
    return sorted(pixels_of(mask))


def pixels_of(mask: NDArray[np.uint8]) -> dict[int, int]:
    """Return how many pixels have each value that a mask has."""
    counts = np.bincount(mask.ravel(), minlength=256)
    return {int(value): int(counts[value]) for value in np.flatnonzero(counts)}


def unknown_values(values: Iterable[int], classes: Collection[int]) -> list[int]:
    """Return the values, ascending, that are no class, not background and not 255."""
    return sorted(set(values) - {BACKGROUND, IGNORED, *classes})


def check_values(mask: NDArray[np.uint8], classes: Collection[int], way_out: str) -> None:
    """Raise `ImageError` with `way_out` unless every value is a class, background or 255."""
    unknown = unknown_values(values_in(mask), classes)
    if unknown:
        told = ", ".join(str(value) for value in unknown[:5])
        raise ImageError(f"mask: no class has the value {told}; {way_out}")


def check_same_size(picture: tuple[int, int], mask: tuple[int, int]) -> None:
    """Raise `ImageError` unless two sizes (height, width) are one."""
    if picture != mask:
        raise ImageError(
            f"mask: {mask[0]} x {mask[1]} pixels (height x width) beside a picture of "
            f"{picture[0]} x {picture[1]}; give both the same size"
        )


class MaskClasses(Strict):
    """The names of the values 1 to 254 that masks have; 0 is background, 255 is left out."""

    classes: dict[Written, ClassName] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_value_per_class(self) -> Self:
        held: dict[ClassName, str] = {}
        for value, name in self.classes.items():
            if not BACKGROUND < int(value) < IGNORED:
                raise ValueError(f"{value} = {name!s}: give classes values from 1 to 254")
            if name == BACKGROUND_NAME:
                raise ValueError(
                    f"{value} = {name!s}: that is 0; leave it out, or rename the class"
                )
            if name in held:
                raise ValueError(f"{name!s} is {held[name]} and {value}; give it one value")
            held[name] = value
        return self

    @property
    def names(self) -> dict[int, ClassName]:
        """Name of each value, ascending."""
        return dict(sorted((int(value), name) for value, name in self.classes.items()))


def load_mask_classes(path: Path) -> MaskClasses:
    """Read the file at `path`; raise `SourceError` naming file, value and name."""
    if not path.is_file():
        raise SourceError(
            f"{path}: there is no such file; write one that says [classes] and then, for each "
            'value of the masks, its class, like 1 = "cat"'
        )
    try:
        return load_settings(path, MaskClasses)
    except SettingsError as error:
        raise SourceError(str(error)) from error
