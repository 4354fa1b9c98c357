"""Opens a picture file as what a device gets of it: grey or RGB, upright, 8 bits; and its size."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageMode

from fleetledger.learning.errors import ImageError
from fleetledger.learning.numerics.preprocessing import check_pixels, decode_picture, open_picture
from fleetledger.simulator.errors import DatasetError


def read_picture(path: Path) -> Image.Image:
    """Return the picture in a file: L for grey and one-bit files, RGB for all others.

    Raises `DatasetError` naming a file that cannot be read or is damaged.
    """
    try:
        image = open_picture(path.read_bytes())
        check_pixels(image)
        grey = ImageMode.getmode(image.mode).basemode == "L" and image.mode != "P"
        return decode_picture(image, "L" if grey else "RGB")
    except ImageError as error:
        raise DatasetError(f"{path}: {error}") from error
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror}; put it back") from error


def size_of(path: Path) -> int:
    """Return the bytes of a picture's file; raise `DatasetError` for one that is gone."""
    try:
        return path.stat().st_size
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror}; put it back") from error
