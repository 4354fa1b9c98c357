"""Scenes as training, measuring and evaluating take them: at the network's size, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
from PIL.Image import Image

from fleetledger.device_agent.core.records import ImageToCount
from fleetledger.device_agent.core.requests import Train
from fleetledger.device_agent.images import ChangedError, Mask, PictureOutcome, Pixels
from fleetledger.device_agent.sources.mask_classes import load_mask_classes
from fleetledger.device_agent.sources.masks import BACKGROUND, IGNORED, pixels_of, unknown_values
from fleetledger.device_agent.sources.scene_folder import most_first
from fleetledger.device_agent.sources.scenes import (
    CLASSES,
    IMAGES,
    MASKS,
    Scene,
    decode_scene,
    named_files,
    read_files,
)
from fleetledger.device_agent.training import ReadImages, read_images
from fleetledger.learning.errors import ImageError
from fleetledger.learning.numerics.preprocessing import preprocess, sized_mask, sized_pixels
from fleetledger.methods.registry import descriptor
from fleetledger.methods.training import LocalData
from fleetledger.schemas.models import AnyPreprocessing, Preprocessing, of_pictures
from fleetledger.schemas.values import ClassName, Digest

FromImage = Callable[[Image, Preprocessing], Pixels]
"""From an upright picture: `preprocess`, or `sized_pixels` where a network is trained."""


def read_asked(request: Train, folder: Path) -> ReadImages:
    """Return what an order asks to train on: scenes where its method segments, else pictures."""
    assignment, spec = request.assignment, of_pictures(request.assignment.preprocessing)
    if not descriptor(assignment.method).segments:
        return read_images(request.images, folder, spec)
    assert assignment.round is not None
    return read_scenes(request.images, folder, spec, assignment.round.aliases)


def read_scenes(
    images: Sequence[ImageToCount],
    folder: Path,
    preprocessing: Preprocessing,
    aliases: Mapping[ClassName, ClassName],
) -> ReadImages:
    """Read scenes at the network's size; what is gone or has changed is left out.

    Masks have the classes of classes.toml under the names that `aliases` gives them; values of one
    name become one. A scene that shows no class any more at that size is left out, and told.
    Raises `SourceError` if classes.toml, or the folder of masks, is of no use.
    """
    names = load_mask_classes(folder / CLASSES).names
    class_names, value_of = _renamed(names, aliases)
    height, width = preprocessing.size
    pixels = np.empty((len(images), preprocessing.channels, height, width), np.uint8)
    masks = np.empty((len(images), height, width), np.uint8)
    kept: list[tuple[ClassName, Digest]] = []
    unusable: list[tuple[Digest, str]] = []
    empty: list[str] = []
    scenes = scenes_of(images, folder)
    for outcome in sized_scenes(scenes, folder, preprocessing, names, sized_pixels):
        image = images[outcome.index]
        if outcome.unusable is not None:
            unusable.append((image.digest, outcome.unusable))
        if outcome.pixels is None or outcome.mask is None:
            continue
        mask = value_of[outcome.mask]
        shown = {
            class_names[value - 1]: count
            for value, count in pixels_of(mask).items()
            if value not in {BACKGROUND, IGNORED}
        }
        if not shown:
            empty.append(image.path)
            continue
        pixels[len(kept)] = outcome.pixels.transpose(2, 0, 1)
        masks[len(kept)] = mask
        kept.append((most_first(shown)[0], image.digest))
    data = LocalData(
        pixels[: len(kept)],
        tuple(name for name, _ in kept),
        tuple(digest for _, digest in kept),
        masks=masks[: len(kept)],
        mask_class_names=class_names,
    )
    return ReadImages(data, tuple(unusable), _too_small(empty, preprocessing))


def read_scene_pictures(
    images: Sequence[ImageToCount], folder: Path, spec: AnyPreprocessing
) -> Iterator[tuple[ImageToCount, Pixels]]:
    """Yield the preprocessed pictures of scenes that can be read and are still what they were."""
    names = load_mask_classes(folder / CLASSES).names
    scenes = scenes_of(images, folder)
    for outcome in sized_scenes(scenes, folder, of_pictures(spec), names, preprocess):
        if outcome.pixels is not None:
            yield images[outcome.index], outcome.pixels


def scenes_of(images: Sequence[ImageToCount], folder: Path) -> list[Scene | None]:
    """Return the scene of each image by its name, None where the mask is gone."""
    masks = named_files(folder, MASKS, [])
    named = [(image, str(PurePosixPath(image.path).relative_to(IMAGES))) for image in images]
    paths = [masks.get(str(PurePosixPath(name).with_suffix(""))) for _, name in named]
    return [
        None if path is None else Scene(image.path, path, image.digest)
        for image, path in zip(images, paths, strict=True)
    ]


def sized_scenes(
    scenes: Iterable[Scene | None],
    folder: Path,
    spec: Preprocessing,
    names: Mapping[int, ClassName],
    convert: FromImage,
) -> Iterator[PictureOutcome]:
    """Yield the outcome of each scene, in order; only one is in memory at a time.

    `names` are those of classes.toml. A scene with another value is left out without blame of its
    files: it is of use as soon as the value has a name.
    """
    for index, scene in enumerate(scenes):
        if scene is None:
            yield PictureOutcome(index)
            continue
        try:
            yield _sized(index, scene, folder, spec, names, convert)
        except ImageError as error:
            yield PictureOutcome(index, unusable=str(error))
        except ChangedError:
            yield PictureOutcome(index)


def _sized(
    index: int,
    scene: Scene,
    folder: Path,
    spec: Preprocessing,
    names: Mapping[int, ClassName],
    convert: FromImage,
) -> PictureOutcome:
    image, mask = decode_scene(scene, *read_files(folder, scene), spec.mode)
    if unknown_values(pixels_of(mask), names):
        return PictureOutcome(index)
    return PictureOutcome(index, convert(image, spec), mask=sized_mask(mask, spec))


def _renamed(
    names: Mapping[int, ClassName], aliases: Mapping[ClassName, ClassName]
) -> tuple[tuple[ClassName, ...], Mask]:
    """Return the names that classes have now, sorted, and their value for each value of a file."""
    now = {value: aliases.get(name, name) for value, name in names.items()}
    class_names = tuple(sorted(set(now.values())))
    value_of = np.zeros(256, np.uint8)
    value_of[IGNORED] = IGNORED
    for value, name in now.items():
        value_of[value] = 1 + class_names.index(name)
    return class_names, value_of


def _too_small(empty: list[str], spec: Preprocessing) -> str:
    if not empty:
        return ""
    height, width = spec.size
    others = " and others" if len(empty) > 1 else ""
    return (
        f"{min(empty)}{others}: what the mask shows is too small to be seen at {height} x {width} "
        "pixels, or cut off; left out of training"
    )
