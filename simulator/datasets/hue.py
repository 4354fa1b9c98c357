"""Pictures in other hues, as of other cameras or lamps: what each shows stays, its colours turn.

A shift is a share of the colour circle, from -0.5 to 0.5; 0 leaves a picture as it is. It is that
of torchvision's `adjust_hue` on 8-bit pictures: hue in 256 steps, saturation and value stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from PIL import Image

from fleetledger.device_agent.kinds import PICTURES
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.simulator.datasets.samples import (
    Content,
    Domains,
    SampleSet,
    domains_of,
    picture_digest,
)
from fleetledger.simulator.errors import DatasetError

_STEPS = 256
"""Of the colour circle."""


def shift_hue(picture: Image.Image, shift: float) -> Image.Image:
    """Return an RGB picture with its hue turned by a share of the circle."""
    hue, saturation, value = picture.convert("HSV").split()
    turned = np.asarray(hue).astype(np.int64) + int(shift * (_STEPS - 1))
    bands = (Image.fromarray((turned % _STEPS).astype(np.uint8)), saturation, value)
    return Image.merge("HSV", bands).convert("RGB")


@dataclass(frozen=True)
class HueShifted:
    """Samples of which each picture has a shift of its own; they fit `SampleSet`.

    `shifts` is float64, (N,), from -0.5 to 0.5. Raises `DatasetError` for what has no colours.
    """

    kind = PICTURES
    samples: SampleSet
    shifts: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        if len(self.shifts) != len(self.samples):
            raise DatasetError(
                f"shifts: {len(self.shifts)} for {count_of(len(self.samples), 'picture')}; give "
                "one for each"
            )

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """Classes, (N,)."""
        return self.samples.labels

    @property
    def class_names(self) -> tuple[ClassName, ...]:
        """Names of all classes."""
        return self.samples.class_names

    @property
    def owners(self) -> npt.NDArray[np.int64] | None:
        """Natural owner of each sample."""
        return self.samples.owners

    @property
    def domains(self) -> Domains | None:
        """Domain of each sample."""
        return domains_of(self.samples)

    def __len__(self) -> int:
        return len(self.samples)

    def picture(self, index: int) -> Content:
        """Return one picture in its hue."""
        return self._shifted(index)

    def digest(self, index: int) -> Digest:
        """Return the digest of one picture in its hue."""
        if not self.shifts[index]:
            return self.samples.digest(index)
        return picture_digest(self._shifted(index))

    @cached_property
    def fingerprint(self) -> Digest:
        """Digest of the samples and their shifts."""
        shifts = np.asarray(self.shifts, "<f8").tobytes()
        return Digest.of(f"{self.samples.fingerprint} hue ".encode() + shifts)

    def take(self, indices: npt.NDArray[np.int64]) -> HueShifted:
        """Return the samples at `indices`, in that order."""
        return HueShifted(self.samples.take(indices), self.shifts[indices])

    def _shifted(self, index: int) -> Image.Image:
        picture, shift = self.samples.picture(index), float(self.shifts[index])
        if not isinstance(picture, Image.Image) or picture.mode != "RGB":
            kind = "texts" if isinstance(picture, bytes) else f"pictures of mode {picture.mode}"
            raise DatasetError(f"hue: {kind} have none; leave data.test_hue and devices.hue at 0")
        return shift_hue(picture, shift) if shift else picture
