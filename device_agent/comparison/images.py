"""Which images two models are compared on: held-out ones, class by class in turn, then others.

Held-out images are never learned from, so they tell who is right. Of the others it is told only
whether the models agree: what lies in the data folder may have been learned from. Folders of
classes that one of the two does not know, or that the fleet does not, are left out of these. What
applications show is in none of them; see `device_agent.comparison.live`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import TypeVar

from fleetledger.device_agent.sources.scenes import IMAGES, Scene, named_scenes
from fleetledger.schemas.values import ClassName

Item = TypeVar("Item")


@dataclass(frozen=True)
class ComparedImage:
    """An image, and what is known to be right of it."""

    path: Path
    class_name: ClassName | None = None
    """The folder's name of a held-out image that shows one class."""
    scene: Scene | None = None
    """A held-out image with its mask."""


def held_out(
    folder: Path, names: Iterable[ClassName], suffixes: AbstractSet[str], most: int
) -> list[ComparedImage]:
    """Return held-out images, a class after the other in turn, so that any beginning is fair."""
    by_class = [
        [ComparedImage(path, name) for path in _files(folder / name, suffixes, most)]
        for name in sorted(names)
    ]
    in_turn = chain.from_iterable(zip_longest(*by_class))
    return list(islice((image for image in in_turn if image is not None), most))


def held_out_scenes(folder: Path, most: int) -> list[ComparedImage]:
    """Return held-out scenes in an even spread."""
    scenes = _evenly(named_scenes(folder), most)
    return [ComparedImage(folder / scene.picture, scene=scene) for scene in scenes]


def unlabelled(
    folder: Path, left_out: AbstractSet[str], suffixes: AbstractSet[str], most: int
) -> list[ComparedImage]:
    """Return other images in an even spread, without the folders that are `left_out`."""
    found: list[Path] = []
    if folder.is_dir():
        for entry in sorted(folder.iterdir()):
            if entry.name.startswith(".") or entry.name in left_out:
                continue
            found += _files(entry, suffixes) if entry.is_dir() else _fitting([entry], suffixes)
    return [ComparedImage(path) for path in _evenly(found, most)]


def unlabelled_scenes(folder: Path, suffixes: AbstractSet[str], most: int) -> list[ComparedImage]:
    """Return pictures of scenes that may have been learned from, in an even spread."""
    return [ComparedImage(path) for path in _evenly(_files(folder / IMAGES, suffixes), most)]


def _files(folder: Path, suffixes: AbstractSet[str], most: int | None = None) -> list[Path]:
    if not folder.is_dir():
        return []
    found = [Path(parent, name) for parent, _, files in os.walk(folder) for name in files]
    kept = sorted(_fitting(found, suffixes))
    return kept if most is None else _evenly(kept, most)


def _fitting(paths: Iterable[Path], suffixes: AbstractSet[str]) -> Iterator[Path]:
    for path in paths:
        if not path.name.startswith(".") and path.suffix.lower() in suffixes:
            yield path


def _evenly(items: list[Item], most: int) -> list[Item]:
    return items[:: -(-len(items) // most)] if items else items
