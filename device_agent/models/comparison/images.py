"""Which images two models are compared on: held-out ones, class by class in turn, then others.

Held-out images are never learned from, so they tell who is right. Of the others it is told only
whether the models agree: what lies in the data folder may have been learned from. Folders of
classes that one of the two does not know, or that the fleet does not, are left out of these. What
applications show is in none of them; see `device_agent.comparison.live`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import TypeVar

from fleetledger.device_agent.samples.images import MaskFile
from fleetledger.device_agent.samples.sources.folder import files_below
from fleetledger.device_agent.samples.sources.masks import load_mask_classes
from fleetledger.device_agent.samples.sources.scenes import CLASSES, IMAGES, named_scenes
from fleetledger.schemas.values import ClassName

Item = TypeVar("Item")
SamplesBelow = Callable[[Path], list[Path]]
"""Samples that lie in a folder, or in one file."""


@dataclass(frozen=True)
class ComparedImage:
    """An image, and what is known to be right of it."""

    path: Path
    class_name: ClassName | None = None
    """The folder's name of a held-out image that shows one class."""
    mask: MaskFile | None = None
    """That of a held-out scene."""


def held_out(
    folder: Path, names: Iterable[ClassName], below: SamplesBelow, most: int
) -> list[ComparedImage]:
    """Return held-out images, a class after the other in turn, so that any beginning is fair."""
    by_class = [
        [ComparedImage(path, name) for path in _evenly(below(folder / name), most)]
        for name in sorted(names)
    ]
    in_turn = chain.from_iterable(zip_longest(*by_class))
    return list(islice((image for image in in_turn if image is not None), most))


def held_out_scenes(folder: Path, most: int) -> list[ComparedImage]:
    """Return held-out scenes in an even spread."""
    scenes = named_scenes(folder, load_mask_classes(folder / CLASSES).names)
    return [ComparedImage(scene.path, mask=scene.mask) for scene in _evenly(scenes, most)]


def unlabelled(
    folder: Path, left_out: AbstractSet[str], below: SamplesBelow, most: int
) -> list[ComparedImage]:
    """Return other images in an even spread, without the folders that are `left_out`."""
    found: list[Path] = []
    if folder.is_dir():
        for entry in sorted(folder.iterdir()):
            if entry.name.startswith(".") or entry.name in left_out:
                continue
            found += below(entry)
    return [ComparedImage(path) for path in _evenly(found, most)]


def unlabelled_scenes(folder: Path, suffixes: AbstractSet[str], most: int) -> list[ComparedImage]:
    """Return pictures of scenes that may have been learned from, in an even spread."""
    return [ComparedImage(path) for path in _evenly(files_below(folder / IMAGES, suffixes), most)]


def _evenly(items: list[Item], most: int) -> list[Item]:
    return items[:: -(-len(items) // most)] if items else items
