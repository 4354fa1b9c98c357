"""8-bit pictures become inputs: normalised; in training cropped, flipped and lit by chance.

Pictures stay bytes on the device until their batch comes, a quarter of the memory. Crop, flip and
normalisation are batched tensor operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

_LIGHTS = 1 << 24
"""Factors of brightness that may be drawn: as many as float32 tells apart."""
_KEPT = 8
"""Constants of a kind of pictures on a device that stay there."""


@dataclass(frozen=True)
class Pictures:
    """Bytes b become (b / 255 - mean) / deviation per channel.

    While training, a window of the picture's own size is cut from the picture with `pad` black
    pixels around it, half of the pictures are mirrored where `flip`, and the values of each are
    multiplied by a factor from 1 - `brightness` to 1 + `brightness`, as torchvision's ColorJitter.
    """

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    pad: int = 0
    flip: bool = False
    brightness: float = 0.0

    @property
    def shakes(self) -> bool:
        """Whether training changes pictures by chance."""
        return self.pad > 0 or self.flip or self.brightness > 0

    def on(self, device: torch.device) -> Normaliser:
        """Return what normalises bytes there; it is copied there once."""
        return normaliser(self.mean, self.deviation, device)

    def normalise(self, raw: Tensor) -> Tensor:
        """Return float32 inputs of `raw` (..., c, h, w) uint8."""
        return self.on(raw.device)(raw)

    def windows(self, words: Tensor) -> Windows:
        """Return what is cut from pictures, mirrored and lit; `words` (...) are chance.

        Bits 0 to 15 of a picture's word choose the row, 16 to 31 the column, bit 32 the mirror, and
        bits 33 to 56 the light.
        """
        places = 2 * self.pad + 1
        top = (words & 0xFFFF) * places >> 16
        left = (words >> 16 & 0xFFFF) * places >> 16
        mirrored = (words >> 32 & 1).bool() if self.flip else torch.zeros_like(words).bool()
        return Windows(top, left, mirrored, self._light(words))

    def _light(self, words: Tensor) -> Tensor | None:
        """Return what pictures are multiplied with, uniform; None where nothing is."""
        if not self.brightness:
            return None
        drawn = (words >> 33 & (_LIGHTS - 1)).to(torch.float32)
        return 1 + self.brightness * (drawn * (2 / (_LIGHTS - 1)) - 1)


@dataclass(frozen=True, eq=False)
class Normaliser:
    """Makes bytes inputs where both constants (c, 1, 1) are."""

    mean: Tensor
    deviation: Tensor

    def __call__(self, raw: Tensor) -> Tensor:
        """Return float32 inputs of `raw` (..., c, h, w), bytes or floats from 0 to 255."""
        values = raw if raw.dtype == torch.uint8 else raw.to(torch.float32)
        return (values / 255 - self.mean) / self.deviation


@lru_cache(_KEPT)
def normaliser(
    mean: tuple[float, ...], deviation: tuple[float, ...], device: torch.device
) -> Normaliser:
    """Return what normalises bytes on a device."""
    with torch.inference_mode(mode=False):
        first, second = torch.tensor([mean, deviation], device=device)[..., None, None]
    return Normaliser(first, second)


@dataclass(frozen=True, eq=False)
class Windows:
    """Where windows lie in padded pictures, int64 (...), and which are mirrored, bool (...)."""

    top: Tensor
    left: Tensor
    mirrored: Tensor
    light: Tensor | None = None
    """What their values are multiplied with, float32 (...); None: nothing."""

    def __getitem__(self, places: slice | tuple[slice, slice]) -> Windows:
        """Return those of some pictures."""
        light = None if self.light is None else self.light[places]
        return Windows(self.top[places], self.left[places], self.mirrored[places], light)

    def lit(self, pictures: Tensor) -> Tensor:
        """Return pictures (..., c, h, w) uint8 as light as they are drawn, rounded down."""
        if self.light is None:
            return pictures
        return (pictures * self.light[..., None, None, None]).clamp_(0, 255).to(torch.uint8)


@dataclass(frozen=True, eq=False)
class PictureSource:
    """Bytes (N, c, h, w) from which batches are cut; padded once where they are padded at all."""

    pictures: Pictures
    pixels: Tensor
    """As given, or (N, h + 2 pad, w + 2 pad, c)."""
    down: Tensor
    across: Tensor
    """Numbers of rows and columns, int64."""

    @classmethod
    def of(cls, pictures: Pictures, raw: Tensor) -> PictureSource:
        """Return the source of pictures that are shaken as `pictures` says."""
        height, width = raw.shape[-2:]
        pad = pictures.pad
        pixels = functional.pad(raw, (pad,) * 4).permute(0, 2, 3, 1) if pad else raw
        down = torch.arange(height, device=raw.device)
        across = down if width == height else torch.arange(width, device=raw.device)
        return cls(pictures, pixels, down, across)

    def shaken(self, rows: Tensor, windows: Windows) -> Tensor:
        """Return pictures (..., c, h, w) uint8 of `rows` (...), cropped, flipped and lit."""
        return windows.lit(self._cut(rows, windows))

    def _cut(self, rows: Tensor, windows: Windows) -> Tensor:
        """Return pictures cropped and flipped."""
        mirrored = windows.mirrored
        if not self.pictures.pad:
            found = self.pixels[rows]
            return torch.where(mirrored[..., None, None, None], found.flip(-1), found)
        columns = self.across
        if self.pictures.flip:
            columns = torch.where(mirrored[..., None], columns.flip(0), columns)
        down = windows.top[..., None] + self.down
        columns = windows.left[..., None] + columns
        found = self.pixels[rows[..., None, None], down[..., :, None], columns[..., None, :]]
        cut = found.movedim(-1, -3)
        # Channels last, as a convolution likes it; of a single channel, whose place is free, first.
        return cut.reshape(cut.shape)
