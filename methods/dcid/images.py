"""Unlabelled images as files: what a site shares, and the shared set S that all sites have.

A file with one tensor, `images`, uint8 (n, c, h, w) at the network's size. S is every image that
was shared, in an order that depends on the images and the round's seed alone: neither on which site
an image comes from, nor on whose answer came first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from methods.errors import ContributionError, MethodError
from schemas.errors import SchemaError
from schemas.tensors import Expected, UpTo, encode_tensors, read_tensors
from schemas.values import Digest

Images = npt.NDArray[np.uint8]

MOST_IMAGES = 100_000
"""Of a shared set."""
_IMAGES = "images"
_HEADER_BYTES = 1 << 12


def encode_images(images: Images) -> bytes:
    """Return images as bytes, not packed: whoever sends them packs them."""
    return encode_tensors({_IMAGES: np.ascontiguousarray(images)}, compress=False)


def decode_images(data: bytes, shape: tuple[int, ...], most: int) -> Images:
    """Return images (n, *shape), from 1 to `most`, packed or not.

    Raises `ContributionError` naming what is wrong with any other file.
    """
    expected = {_IMAGES: Expected("uint8", (UpTo(most), *shape))}
    limit = _HEADER_BYTES + most * int(np.prod(shape))
    try:
        images: Images = read_tensors(data, expected, limit).tensors[_IMAGES]
    except SchemaError as error:
        raise ContributionError(f"images: {error}") from error
    if not len(images):
        raise ContributionError("images: there is none; share at least one, or decline")
    return images


def checked_images(images: npt.NDArray[np.uint8], shape: tuple[int, ...]) -> Images:
    """Return images that an operator gives; raise `MethodError` unless sites can distil on them."""
    if images.dtype != np.uint8 or images.shape[1:] != shape or images.ndim != len(shape) + 1:
        raise MethodError(
            f"shared: {images.dtype} {images.shape}; give uint8 pictures (n, "
            f"{', '.join(map(str, shape))}), the size that the network takes"
        )
    if not 2 <= len(images) <= MOST_IMAGES:
        raise MethodError(f"shared: {len(images)} images; give 2 to {MOST_IMAGES}")
    return images


def shuffled(images: Iterable[npt.NDArray[np.uint8]], seed: int) -> Images:
    """Return blocks of images as one, in the order of a hash of seed and image."""
    every = np.concatenate(list(images))
    keys = [_key(image, seed) for image in every]
    return np.ascontiguousarray(every[sorted(range(len(every)), key=keys.__getitem__)])


def digest_of(images: Images) -> Digest:
    """Return the digest of images in their order."""
    return Digest.of(encode_images(images))


def _key(image: npt.NDArray[np.uint8], seed: int) -> bytes:
    return hashlib.sha256(f"{seed}/".encode() + image.tobytes()).digest()
