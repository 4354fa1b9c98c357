"""Reading samples from the disk into the model's input: pictures, texts, arrays, scenes."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from PIL.Image import Image

from fleetledger.device_agent.kinds import MAX_FILE_BYTES, PICTURES, SampleKind, kind_of
from fleetledger.device_agent.samples.array_files import read_content
from fleetledger.device_agent.samples.sources.masks import (
    check_same_size,
    decode_mask,
    unknown_values,
    values_in,
)
from fleetledger.learning.errors import SampleError
from fleetledger.learning.numerics.preprocessing import (
    check_pixels,
    decode_picture,
    open_picture,
    preprocess,
    sized_mask,
)
from fleetledger.runtime.progress import working_at
from fleetledger.runtime.regular_files import open_regular
from fleetledger.schemas.models import AnyPreprocessing, of_pictures
from fleetledger.schemas.values import Digest


class ChangedError(Exception):
    """The file is gone, cannot be read, or holds other bytes than expected."""


Pixels = npt.NDArray[Any]
Mask = npt.NDArray[np.uint8]
Spec = TypeVar("Spec", bound=AnyPreprocessing)
Convert = Callable[[bytes | Image, Spec], Pixels]
"""From a file's bytes, or an upright picture, to a model's input: `preprocess`, or `network_input`
where a network is trained on samples themselves."""


@dataclass(frozen=True)
class MaskFile:
    """The mask beside a picture."""

    path: Path
    values: Collection[int]
    """Values that have a class. A mask with another one is of no use until that has a name."""


@dataclass(frozen=True)
class PictureFile:
    """A file, and the digest that it must have where that matters."""

    path: Path
    digest: Digest | None = None
    """Of a scene, that of picture and mask together."""
    mask: MaskFile | None = None


@dataclass(frozen=True)
class PictureOutcome:
    """Content of one picture, text, array or scene, or why there is none."""

    index: int
    pixels: Pixels | None = None
    """Pixels, token ids of a text, or numbers of an array."""
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
            pixels, mask = read_sample(picture, spec, convert)
        except SampleError as error:
            yield PictureOutcome(index, unusable=str(error))
        except ChangedError:
            yield PictureOutcome(index)
        else:
            yield PictureOutcome(index, pixels, mask=mask)


def read_sample(
    picture: PictureFile, spec: Spec, convert: Convert[Spec] = preprocess
) -> tuple[Pixels, Mask | None]:
    """Return the pixels of one file, as `convert` makes them, and of a scene its mask (H, W).

    Raises `SampleError` if it does not decode, `ChangedError` if it is not the file it was, or its
    mask has a value without a class.
    """
    data = read_limited(picture.path, kind_of(spec))
    if picture.mask is None:
        _check_digest(picture, data)
        return convert(data, spec), None
    mask = read_limited(picture.mask.path)
    _check_digest(picture, data, mask)
    return _sized_scene(picture.mask, data, mask, spec, convert)


def _check_digest(picture: PictureFile, data: bytes, mask: bytes | None = None) -> None:
    if picture.digest is None:
        return
    found = Digest.of(data)
    if mask is not None:
        found = scene_digest(found, Digest.of(mask))
    if found != picture.digest:
        raise ChangedError(f"{picture.path}: has changed since it was found")


def _sized_scene(
    file: MaskFile, picture: bytes, mask: bytes, spec: Spec, convert: Convert[Spec]
) -> tuple[Pixels, Mask]:
    seen = of_pictures(spec)
    image = open_picture(picture)
    check_pixels(image)
    image = decode_picture(image, seen.mode)
    values = decode_mask(mask)
    check_same_size((image.height, image.width), (values.shape[0], values.shape[1]))
    if unknown_values(values_in(values), file.values):
        raise ChangedError(f"{file.path}: has a value without a class")
    return convert(image, spec), sized_mask(values, seen)


def scene_digest(picture: Digest, mask: Digest) -> Digest:
    """Return the digest of a scene from those of its two files."""
    return Digest.of(f"scene {picture} {mask}".encode())


def read_limited(path: Path, kind: SampleKind = PICTURES) -> bytes:
    """Return a file's bytes, or those of the one sample of many that `path` names.

    Raises the kind's error if it is too large, `ChangedError` if it cannot be read.
    """
    working_at(path)
    try:
        if kind.many:
            return read_content(path)
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            most = min(kind.most_bytes, MAX_FILE_BYTES)
            if size > most:
                raise kind.error(f"{kind.noun}: {size} bytes exceed {most}; {kind.smaller}")
            return file.read(most)
    except OSError as error:
        raise ChangedError(f"{path}: cannot be read: {error.strerror}") from error
