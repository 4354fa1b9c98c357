"""Reading pictures and texts from the disk into the model's input."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import ImageError, SampleError, TextError
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.learning.numerics.tokens import MAX_TEXT_BYTES
from fleetledger.schemas.models import AnyPreprocessing
from fleetledger.schemas.progress import working_at
from fleetledger.schemas.regular_files import open_regular
from fleetledger.schemas.values import Digest

MAX_FILE_BYTES = 64 << 20
"""Larger files are refused before they are read."""


class ChangedError(Exception):
    """The file is gone, cannot be read, or holds other bytes than expected."""


Pixels = npt.NDArray[Any]
Mask = npt.NDArray[np.uint8]
Spec = TypeVar("Spec", bound=AnyPreprocessing)
Convert = Callable[[bytes, Spec], Pixels]
"""From a file's bytes to pixels or token ids: `preprocess`, or `sized_pixels` where a network is
trained on pictures."""


@dataclass(frozen=True)
class PictureFile:
    """A file, and the digest that it must have where that matters."""

    path: Path
    digest: Digest | None = None


@dataclass(frozen=True)
class PictureOutcome:
    """Content of one picture, text or scene, or why there is none."""

    index: int
    pixels: Pixels | None = None
    """Pixels, or token ids of a text."""
    unusable: str | None = None
    """Why it does not decode; None for a file that is gone or has changed."""
    mask: Mask | None = None
    """Mask of a scene, (H, W), with the values of the file."""


def read_pictures(
    pictures: Sequence[PictureFile], spec: Spec, convert: Convert[Spec] = preprocess
) -> Iterator[PictureOutcome]:
    """Yield the outcome of each picture, in order; only one is in memory at a time."""
    for index, picture in enumerate(pictures):
        try:
            yield PictureOutcome(index, pixels=read_picture(picture, spec, convert))
        except SampleError as error:
            yield PictureOutcome(index, unusable=str(error))
        except ChangedError:
            yield PictureOutcome(index)


def read_picture(picture: PictureFile, spec: Spec, convert: Convert[Spec] = preprocess) -> Pixels:
    """Return the pixels of one file, as `convert` makes them.

    Raises `SampleError` if it does not decode, `ChangedError` if it is not the file it was.
    """
    working_at(picture.path)
    try:
        with open_regular(picture.path) as file:
            _check_size(os.fstat(file.fileno()).st_size, spec)
            data = file.read(MAX_FILE_BYTES)
    except OSError as error:
        raise ChangedError(f"{picture.path}: cannot be read: {error.strerror}") from error
    if picture.digest is not None and Digest.of(data) != picture.digest:
        raise ChangedError(f"{picture.path}: has changed since it was found")
    return convert(data, spec)


def _check_size(size: int, spec: AnyPreprocessing) -> None:
    if spec.mode == "text" and size > MAX_TEXT_BYTES:
        raise TextError(f"text: {size} bytes exceed {MAX_TEXT_BYTES}; cut it into several")
    if size > MAX_FILE_BYTES:
        raise ImageError(f"image: {size} bytes exceed {MAX_FILE_BYTES}; scale it down")
