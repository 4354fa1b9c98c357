"""Rules of the inbox, over plain values: what comes in, and what goes for it.

- What the model is sure of enough stays out: doubt is measured as in `[detection]`.
- At most one image comes in an interval, however many programs offer them and however fast.
- An image that looks like one that waits already stays out: a scene that stands still is one image.
- What is too old goes. Of a full inbox that goes which the model doubts least, the oldest first;
  an image that would be the next to go does not come in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from PIL import Image

from fleetledger.device_agent.settings import InboxSettings
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import Digest

Offer = Literal["kept", "sure", "soon", "alike", "full"]
"""What became of an image: it is kept, or why it is not."""
_WIDTH, _HEIGHT = 9, 8
USUAL_DOUBT = 0.5
"""The least doubt of an image that is kept, in the unit of `[detection]`, unless it is set."""
ALIKE_BITS = 6
"""Outlines, of 64 bits, that differ in so many or fewer are of one scene."""


class DoubtedImage(Strict):
    """An image that waits for its owner."""

    digest: Digest
    """Of the file's content."""
    suffix: Literal[".png", ".jpg"]
    size: int
    """Bytes."""
    doubt: float
    guess: str
    """The class that the model thinks most likely."""
    version: int
    """The model's."""
    time: float
    """When it came: seconds since 1970."""
    outline: int
    """See `outline_of`."""

    @property
    def file_name(self) -> str:
        """Of the image in the inbox."""
        return f"{self.digest}{self.suffix}"


def outline_of(picture: Image.Image) -> int:
    """Return 64 bits: whether each of 8 x 8 places is brighter than the one to its right.

    Light and noise change few of them, another scene about half.
    """
    small = picture.convert("L").resize((_WIDTH, _HEIGHT), Image.Resampling.BOX).tobytes()
    bits = 0
    for row in range(_HEIGHT):
        for column in range(_WIDTH - 1):
            place = row * _WIDTH + column
            bits = bits << 1 | (small[place] > small[place + 1])
    return bits


def too_soon(waiting: Sequence[DoubtedImage], now: float, limits: InboxSettings) -> bool:
    """Whether one came within the interval; a time ahead of a clock set back holds nothing up."""
    return any(0 <= now - image.time < limits.interval_seconds for image in waiting)


def is_alike(waiting: Sequence[DoubtedImage], outline: int) -> bool:
    """Whether an image of the same scene waits."""
    return any((image.outline ^ outline).bit_count() <= ALIKE_BITS for image in waiting)


def outdated(
    waiting: Sequence[DoubtedImage], now: float, limits: InboxSettings
) -> tuple[DoubtedImage, ...]:
    """Return what has waited too long."""
    return tuple(image for image in waiting if now - image.time > 86_400 * limits.days)


def making_room(
    waiting: Sequence[DoubtedImage], new: DoubtedImage, limits: InboxSettings
) -> tuple[DoubtedImage, ...] | None:
    """Return what goes so that a new image has room; None where that one would be the next."""
    images, size = len(waiting) + 1, sum(image.size for image in waiting) + new.size
    going: list[DoubtedImage] = []
    for image in sorted((*waiting, new), key=lambda image: (image.doubt, image.time)):
        if images <= limits.images and size <= limits.megabytes << 20:
            break
        if image is new:
            return None
        going.append(image)
        images, size = images - 1, size - image.size
    return tuple(going)
