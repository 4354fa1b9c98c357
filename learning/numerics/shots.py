"""Shots: images of a stream that look alike, known by the fingerprints of their features.

A fingerprint is the signs of `BITS` random projections of an image's features less their centre
(Charikar, Similarity estimation techniques from rounding algorithms, 2002): the share of bits in
which two fingerprints differ is the angle between the centred features over pi. An image within
`NEAR` bits of one of the last `KEPT` shots belongs to it; any other begins a shot.

The centre is that of the camera's own images, since all of them point one way from anybody else's.
Held-out images give the first one where there are any, the first `FIRST` images where there are
none; it is taken again over all images so far after twice, four and eight times as many, and the
shots known until then are dropped, because another centre makes other fingerprints. What is kept
are projections alone: `BITS` numbers for the mean, as many for the centre, `KEPT` fingerprints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.counter_generator import integer_map

BITS = 256
"""Random projections of a fingerprint."""
NEAR = 60
"""Bits in which a fingerprint may differ from that of its shot: an angle of 42 degrees."""
KEPT = 32
"""Shots that are remembered, the last seen first."""
FIRST = 50
"""Images of the first centre; held-out ones count as many."""
LAST = 8 * FIRST
"""Images after which the centre stays."""

_SEED = 1
Projections = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Shots:
    """What a device remembers of the shots of one backbone."""

    backbone: str = ""
    """Digest of the frozen part whose features are projected."""
    images: int = 0
    """Images of the mean; it is complete with `LAST`."""
    mean: tuple[float, ...] = ()
    """Mean projections (BITS,) of these images; empty before the first, and once complete."""
    centre: tuple[float, ...] = ()
    """The mean projections (BITS,) that fingerprints are taken around; empty while too few."""
    due: int = FIRST
    """Images of the mean at which the centre is taken again."""
    leaders: tuple[int, ...] = ()
    """Fingerprints of the first images of the last shots, the last seen first."""

    def to_plain(self) -> dict[str, Any]:
        """Return plain values; the law: `Shots.from_plain(s.to_plain()) == s`."""
        return {
            "backbone": self.backbone,
            "images": self.images,
            "mean": _in_hex(self.mean),
            "centre": _in_hex(self.centre),
            "due": self.due,
            "leaders": [f"{leader:0{BITS // 4}x}" for leader in self.leaders],
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Shots:
        """Return what `to_plain` wrote; raise `KeyError`, `TypeError` or `ValueError` else."""
        return cls(
            backbone=plain["backbone"],
            images=int(plain["images"]),
            mean=_of_hex(plain["mean"]),
            centre=_of_hex(plain["centre"]),
            due=int(plain["due"]),
            leaders=tuple(int(leader, 16) for leader in plain["leaders"]),
        )


def projected(features: npt.NDArray[np.floating[Any]]) -> Projections:
    """Return the projections (n, BITS) of features (n, M): of these alone is anything kept."""
    return np.asarray(features, np.float32) @ _map(features.shape[1])


def centred_by(shots: Shots, held_out: Projections) -> Shots:
    """Return the shots with the centre of held-out images (n, BITS), where there is none yet."""
    held_out = held_out[np.isfinite(held_out).all(axis=1)]
    if shots.images or not len(held_out):
        return shots
    return _centred(replace(shots, images=FIRST, mean=_as_kept(held_out.mean(axis=0))))


def add_images(shots: Shots, projections: Projections) -> tuple[Shots, list[bool]]:
    """Take in images (n, BITS) in their order; return which of them begin a shot.

    None does while there is no centre. Features that are no numbers are like no others.
    """
    finite = np.asarray(np.isfinite(projections).all(axis=1), np.bool_)
    shots = _with_mean(shots, projections[finite])
    if not shots.centre:
        return shots, [False] * len(projections)
    signs = np.packbits(projections > np.array(shots.centre, np.float32), axis=1)
    leaders, begins = list(shots.leaders), []
    for image, row in zip(signs, finite.tolist(), strict=True):
        code = int.from_bytes(image.tobytes(), "big")
        near = _nearest(leaders, code) if row else None
        begins.append(near is None)
        if row:
            leaders.insert(0, code if near is None else leaders.pop(near))
    return replace(shots, leaders=tuple(leaders[:KEPT])), begins


def _nearest(leaders: Sequence[int], code: int) -> int | None:
    """Return which shot a fingerprint belongs to; None where it begins one."""
    apart = [(leader ^ code).bit_count() for leader in leaders[:KEPT]]
    return apart.index(min(apart)) if apart and min(apart) <= NEAR else None


def _with_mean(shots: Shots, projections: Projections) -> Shots:
    if not len(projections) or shots.images >= LAST:
        return shots
    images = shots.images + len(projections)
    before = np.array(shots.mean or (0.0,) * BITS) * shots.images
    mean = (before + projections.sum(axis=0, dtype=np.float64)) / images
    after = replace(shots, images=images, mean=_as_kept(mean))
    return _centred(after) if images >= shots.due else after


def _centred(shots: Shots) -> Shots:
    """Take the centre again; fingerprints around another one say nothing."""
    due = shots.due
    while due <= shots.images:
        due *= 2
    mean = shots.mean if shots.images < LAST else ()
    return replace(shots, mean=mean, centre=shots.mean, due=due, leaders=())


def _as_kept(values: npt.NDArray[Any]) -> tuple[float, ...]:
    return tuple(values.astype(np.float32).tolist())


def _in_hex(values: tuple[float, ...]) -> str:
    return np.array(values, "<f4").tobytes().hex()


def _of_hex(text: str) -> tuple[float, ...]:
    values = np.frombuffer(bytes.fromhex(text), "<f4")
    if len(values) not in (0, BITS):
        raise ValueError(f"projections: {len(values)} of them; there are {BITS}")
    return tuple(values.tolist())


@lru_cache(maxsize=4)
def _map(width: int) -> npt.NDArray[np.float32]:
    """Return the projections (width, BITS): of a seed, so that they are never stored."""
    return integer_map(_SEED, width, BITS).astype(np.float32)
