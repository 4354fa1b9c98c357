"""Frames that an application may show to a model, and their way to the model's input."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from fleetledger.device_agent.kinds import PICTURES, kind_of
from fleetledger.device_agent.models.inference.installed_model import Inputs
from fleetledger.device_agent.samples.images import (
    ChangedError,
    PictureFile,
    read_limited,
    read_sample,
)
from fleetledger.learning.errors import ImageError, SampleError
from fleetledger.learning.numerics.preprocessing import (
    check_pixels,
    decode_picture,
    open_picture,
    preprocess,
)
from fleetledger.schemas.models import AnyPreprocessing

Frame: TypeAlias = "npt.NDArray[Any] | Image.Image | bytes | str | os.PathLike[str]"
"""uint8 (H, W), (H, W, 3) RGB or (H, W, 4) RGBA; of a model of arrays, numbers of its shape; a
Pillow image; a file's content; its path."""
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def input_of(frame: Frame, spec: AnyPreprocessing) -> Inputs:
    """Return the model's input for a frame; raise `SampleError`."""
    if isinstance(frame, str | os.PathLike):
        try:
            return read_sample(PictureFile(Path(frame)), spec)[0]
        except ChangedError as error:
            raise kind_of(spec).error(str(error)) from error
        except SampleError as error:
            raise type(error)(f"{os.fspath(frame)}: {error}") from error
    if isinstance(frame, np.ndarray) and kind_of(spec) is PICTURES:
        frame = image_of(frame)
    return preprocess(frame, spec)


def picture_of(frame: Frame) -> Image.Image:
    """Return a frame as an upright picture; raise `ImageError`."""
    if isinstance(frame, str | os.PathLike):
        path = Path(frame)
        try:
            frame = read_limited(path)
        except ChangedError as error:
            raise ImageError(str(error)) from error
    if isinstance(frame, np.ndarray):
        frame = image_of(frame)
    opened = open_picture(frame) if isinstance(frame, bytes) else frame
    check_pixels(opened)
    return decode_picture(opened, "RGB")


def image_of(array: npt.NDArray[Any]) -> Image.Image:
    """Return an array as an image; raise `ImageError` for one that is none."""
    channels = 1 if array.ndim == 2 else array.shape[-1] if array.ndim == 3 else 0
    if array.dtype != np.uint8 or channels not in _MODES or not array.size:
        raise ImageError(
            f"frame: {array.dtype} of shape {array.shape}; give uint8 of shape (height, width, 3), "
            "red first, or (height, width)"
        )
    pixels = array.reshape(array.shape[:2]) if channels == 1 else array
    return Image.fromarray(np.ascontiguousarray(pixels))
