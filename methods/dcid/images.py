"""Unlabelled images as files: what a site shares, and the shared set S that all sites have.

A file with one tensor, `images`, uint8 (n, c, h, w) at the network's size. S is every image that
was shared, in an order that depends on the images and the round's seed alone: neither on which site
an image comes from, nor on whose answer came first. Or S is given by the operator, or made by both
sides from the seed: smooth patterns that nobody's camera saw. Each is a coarse grid of random grey
or colour, 2 to 5 cells a side, drawn out to the network's size without edges. White noise would
tell a network nothing. All is integers of the counter-based generator, so every machine makes the
same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fleetledger.learning.networks.seeding import stream_key
from fleetledger.learning.numerics.counter_generator import random_words
from fleetledger.methods.dcid.assignment import DcidAssignment
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.training.exchange import SHARED
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.tensors import Expected, UpTo, encode_tensors, read_tensors
from fleetledger.schemas.values import Digest

Images = npt.NDArray[np.uint8]

MOST_IMAGES = 100_000
"""Of a shared set."""
_IMAGES = "images"
_HEADER_BYTES = 1 << 12

_CELLS = (2, 3, 4, 5)
_ONE = 256
"""Of fixed-point shares between two cells."""


def encode_images(images: Images) -> bytes:
    """Return images as bytes, not packed: whoever sends them packs them."""
    return encode_tensors({_IMAGES: np.ascontiguousarray(images)})


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
        raise MethodError(f"shared: {count_of(len(images), 'image')}; give 2 to {MOST_IMAGES}")
    return images


def shuffled(images: Iterable[npt.NDArray[np.uint8]], seed: int) -> Images:
    """Return blocks of images as one, in the order of a hash of seed and image."""
    every = np.concatenate(list(images))
    keys = [_key(image, seed) for image in every]
    return np.ascontiguousarray(every[sorted(range(len(every)), key=keys.__getitem__)])


def digest_of(images: Images) -> Digest:
    """Return the digest of images in their order."""
    return Digest.of(encode_images(images))


def shared_images(assignment: DcidAssignment, extras: Mapping[str, bytes]) -> Images:
    """Return the shared set S; raise `MethodError` where there is none."""
    settings, shape = assignment.settings, assignment.input_shape
    if settings.shared_set == "synthetic":
        return synthetic_images(settings.seed, settings.synthetic_images, shape)
    if SHARED not in extras:
        raise MethodError(
            f"{SHARED}: there are no images to distil on; let owners allow publish_images, or "
            "import the network with shared_set = 'public' or 'synthetic'"
        )
    return decode_images(extras[SHARED], shape, MOST_IMAGES)


@lru_cache(2)
def synthetic_images(seed: int, count: int, shape: tuple[int, int, int]) -> npt.NDArray[np.uint8]:
    """Return `count` pictures (count, c, h, w), not to be changed; of one seed always the same."""
    pictures = np.stack([_picture(stream_key(seed, "synthetic", i), shape) for i in range(count)])
    pictures.flags.writeable = False
    return pictures


def _key(image: npt.NDArray[np.uint8], seed: int) -> bytes:
    return hashlib.sha256(f"{seed}/".encode() + image.tobytes()).digest()


def _picture(key: int, shape: tuple[int, int, int]) -> npt.NDArray[np.uint8]:
    channels, height, width = shape
    first = int(random_words(key, 0, 1)[0])
    side = _CELLS[first % len(_CELLS)]
    words = random_words(key, 1, channels * side * side) >> np.uint64(56)
    cells = words.astype(np.int64).reshape(channels, side, side)
    tall = _drawn_out(cells, height)
    wide = _drawn_out(tall.swapaxes(1, 2), width).swapaxes(1, 2)
    return np.asarray(wide // (_ONE * _ONE), np.uint8)


def _drawn_out(cells: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.int64]:
    """Return cells (c, k, m) between which `length` places lie on lines, times `_ONE`."""
    last = cells.shape[1] - 1
    places = np.arange(length) * last * _ONE // max(1, length - 1)
    before = np.minimum(places // _ONE, last - 1)
    share = (places - before * _ONE)[:, np.newaxis]
    return np.asarray(cells[:, before] * (_ONE - share) + cells[:, before + 1] * share)
