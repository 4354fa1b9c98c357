"""Streams of frames that a camera gives, made of films of single images.

A stream is which image and which frame of it comes when. Quiet ones show classes that the model
knows; `half_new` ones show as many of others from some moment on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
THINGS = 240
"""Things that a stream of films shows."""
QUIET_THINGS = 110
"""Of these before half of them are new."""


@dataclass(frozen=True, eq=False)
class Stream:
    """Frames in the order in which they come; all arrays are (n,)."""

    images: Numbers
    frames: Numbers
    things: Numbers
    """Which thing of the stream a frame shows, from 0 on."""
    change: int | None = None
    """The first frame after which half is new; None where nothing is."""
    part: str = "filmed"


@dataclass(frozen=True, eq=False)
class Pool:
    """Images that a device may see, in an order of chance."""

    labels: Numbers
    """Classes of all filmed images."""
    doubts: npt.NDArray[np.float64]
    """Value of the first frame of each, for the detector."""
    known: Numbers
    """Filmed images of classes that the model knows and the device has."""
    new: Numbers
    """Those of classes that it does not know."""
    dark: Numbers
    """Images of known classes, of those that are filmed at a light of their own."""
    dark_labels: Numbers
    light: npt.NDArray[np.float64]
    """Light of all of these."""
    filmed_frames: int
    dark_frames: int


def films(
    images: Numbers, frames: int, chance: np.random.Generator, least: int = 5, most: int = 30
) -> Stream:
    """Return a film of each image, of `least` to `most` frames that go back and forth."""
    lengths = chance.integers(least, most + 1, len(images))
    shown = [_back_and_forth(np.arange(length) + chance.integers(10), frames) for length in lengths]
    things = np.repeat(np.arange(len(images)), lengths)
    return Stream(np.repeat(images, lengths), np.concatenate(shown), things)


def single(pool: Pool, chance: np.random.Generator) -> Stream:
    """Return single images in an order of chance."""
    images = pool.known[:400]
    return Stream(
        images, chance.integers(pool.filmed_frames, size=len(images)), np.arange(len(images))
    )


def of_things(pool: Pool, chance: np.random.Generator) -> Stream:
    """Return films in an order of chance."""
    return films(pool.known[:THINGS], pool.filmed_frames, chance)


def sessions(pool: Pool, chance: np.random.Generator) -> Stream:
    """Return films in sessions of 10 to 30 things of one to three classes."""
    chosen = _in_sessions(pool.known, pool.labels, THINGS, chance)
    return films(chosen, pool.filmed_frames, chance)


def classes(pool: Pool, chance: np.random.Generator) -> Stream:
    """Return films of six classes, one class after the other, 40 things each."""
    own = chance.permutation(np.unique(pool.labels[pool.known]))[:6]
    chosen = [pool.known[pool.labels[pool.known] == c][:40] for c in own]
    return films(np.concatenate(chosen), pool.filmed_frames, chance)


def day(pool: Pool, chance: np.random.Generator) -> Stream:
    """Return films over a day: the light falls to a third and comes back."""
    chosen = pool.dark[:THINGS]
    chosen = chosen[np.argsort(-pool.light[chosen])]
    chosen = np.concatenate([chosen[0::2], chosen[1::2][::-1]])
    hours = np.array_split(chosen, max(1, len(chosen) // 10))
    # Within an hour classes come one after the other.
    by_class = [
        hour[np.argsort(chance.random(100)[pool.dark_labels[hour]], kind="stable")]
        for hour in hours
    ]
    found = films(np.concatenate(by_class), pool.dark_frames, chance)
    return Stream(found.images, found.frames, found.things, part="darkened")


def fixed(pool: Pool, chance: np.random.Generator) -> Stream:
    """Return the film of a camera that stands still: 30 things that come back, 20 to 100 frames."""
    chosen = chance.choice(pool.known[:30], 70)
    return films(chosen, pool.filmed_frames, chance, 20, 100)


def drive(pool: Pool, chance: np.random.Generator) -> Stream:
    """Return one to three frames of each thing, whose doubts go together as CamVid's do."""
    chosen, slow = pool.known[:THINGS], np.empty(THINGS)
    slow[0] = chance.normal()
    for at in range(1, THINGS):
        slow[at] = 0.95 * slow[at - 1] + np.sqrt(1 - 0.95**2) * chance.normal()
    ranked = np.sqrt(0.6) * slow + np.sqrt(0.4) * chance.normal(size=THINGS)
    order = np.empty(THINGS, np.int64)
    order[np.argsort(ranked)] = chosen[np.argsort(pool.doubts[chosen])]
    return films(order, pool.filmed_frames, chance, 1, 3)


def half_new_singles(pool: Pool, chance: np.random.Generator) -> Stream:
    """Return 150 quiet single images, and 200 of which half are new."""
    mixed = chance.permutation(np.concatenate([pool.known[150:250], pool.new[:100]]))
    images = np.concatenate([pool.known[:150], mixed])
    frames = chance.integers(pool.filmed_frames, size=len(images))
    return Stream(images, frames, np.arange(len(images)), 150)


def half_new_films(pool: Pool, chance: np.random.Generator) -> Stream:
    """Return sessions of quiet things, and then 130 things of which half are new."""
    half = len(pool.known) // 2
    quiet = _in_sessions(pool.known[:half], pool.labels, QUIET_THINGS, chance)
    known = _in_sessions(pool.known[half:], pool.labels, 65, chance)
    new = _in_sessions(pool.new, pool.labels, 65, chance)
    # Each session has as many new things as known ones, in an order of chance.
    mixed = [
        chance.permutation(np.concatenate([known[at : at + 10], new[at : at + 10]]))
        for at in range(0, 65, 10)
    ]
    found = films(np.concatenate([quiet, *mixed]), pool.filmed_frames, chance)
    change = int(np.searchsorted(found.things, QUIET_THINGS))
    return Stream(found.images, found.frames, found.things, change)


QUIET_STREAMS: dict[str, Callable[[Pool, np.random.Generator], Stream]] = {
    "single images": single,
    "films": of_things,
    "sessions": sessions,
    "class by class": classes,
    "a day's light": day,
    "a fixed camera": fixed,
    "a drive": drive,
}


def _in_sessions(
    images: Numbers, labels: Numbers, things: int, chance: np.random.Generator
) -> Numbers:
    """Return some of the images, each once, in sessions of one to three classes."""
    left = {int(c): list(chance.permutation(images[labels[images] == c])) for c in labels[images]}
    chosen: list[int] = []
    while len(chosen) < things and left:
        session = chance.choice(list(left), min(len(left), chance.integers(1, 4)), replace=False)
        for _ in range(chance.integers(10, 31)):
            own = int(chance.choice(session))
            if own in left:
                chosen.append(left[own].pop())
                left = {c: rest for c, rest in left.items() if rest}
    return np.array(chosen[:things])


def _back_and_forth(steps: Numbers, frames: int) -> Numbers:
    """Return 0 1 2 ... and back again for steps 0 1 2 ..., over `frames` frames."""
    turn = steps % (2 * frames - 2)
    return np.where(turn < frames, turn, 2 * frames - 2 - turn)
