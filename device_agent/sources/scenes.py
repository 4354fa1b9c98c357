"""A data folder for segmentation: pictures, a mask for each, and what the masks' values are called.

    images/NAME.png     a picture, in any format of `SUFFIXES`
    masks/NAME.png      its mask, of the same size: palette indices or 8-bit grey values
    classes.toml        below [classes] the name of each value, like `1 = "cat"`

- NAME may have folders in it, the same below `images` and `masks`; names that begin with a dot are
  left alone.
- In a mask 0 is background and 255 is left out of everything.
- A picture with its mask is a scene. Its digest covers both files, so a mask that was mended makes
  another scene. It does not cover classes.toml: a value keeps its class for ever.
- A scan looks at names, sizes and times, as that of class folders does, and its caller keeps the
  digests. What is in a scene is checked when it is read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from fleetledger.device_agent.core.notices import problem
from fleetledger.device_agent.errors import SourceError
from fleetledger.device_agent.images import MAX_FILE_BYTES, ChangedError
from fleetledger.device_agent.sources.cache import DigestCache, HashedFile
from fleetledger.device_agent.sources.folder import SUFFIXES, sample_files, seen_at_rest, why_unread
from fleetledger.device_agent.sources.masks import check_same_size, decode_mask
from fleetledger.learning.errors import ImageError
from fleetledger.learning.numerics.framing import Mode
from fleetledger.learning.numerics.preprocessing import check_pixels, decode_picture, open_picture
from fleetledger.schemas.progress import working_at
from fleetledger.schemas.regular_files import open_regular
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.values import Digest

IMAGES, MASKS, CLASSES = "images", "masks", "classes.toml"
_SUFFIXES = {IMAGES: SUFFIXES, MASKS: frozenset((".png",))}
MEND_VALUES = f"write its class into {CLASSES}, or mend the mask"
"""The way out where a mask has a value without a class."""


@dataclass(frozen=True)
class Scene:
    """A picture and its mask, as paths relative to the data folder.

    With the digest that the two must have where that matters, else None.
    """

    picture: str
    mask: str
    digest: Digest | None


@dataclass(frozen=True)
class FoundScene(Scene):
    """A scene that a scan found."""

    digest: Digest
    mask_digest: Digest


@dataclass(frozen=True)
class ScannedScenes:
    """What a scan found: scenes at rest, sorted by picture, and what the owner should mend."""

    scenes: tuple[FoundScene, ...]
    problems: tuple[Problem, ...]
    unsettled: int
    """Scenes of which a file is perhaps still being written."""


@dataclass
class _Findings:
    """What one scan has found so far."""

    scenes: list[FoundScene] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    seen: dict[str, HashedFile] = field(default_factory=dict)
    unsettled: int = 0


class SceneSource:
    """Scans a data folder; for one thread."""

    def __init__(
        self, folder: Path, cache: DigestCache, clock: Callable[[], float] = time.time
    ) -> None:
        self._folder = folder
        self._cache = cache
        self._clock = clock

    def scan(self) -> ScannedScenes:
        """Return all scenes at rest; a picture or a mask alone is a problem, and no scene.

        Raises `SourceError` if one of the two folders is not there, so that a disk that is not
        mounted is never taken for an empty one.
        """
        found = _Findings()
        pictures = named_files(self._folder, IMAGES, found.problems)
        masks = named_files(self._folder, MASKS, found.problems)
        for name in sorted(pictures.keys() & masks.keys()):
            self._look_at(pictures[name], masks[name], found)
        for name in sorted(pictures.keys() - masks.keys()):
            text = f"{pictures[name]}: has no mask; put {MASKS}/{name}.png beside it, or remove it"
            found.problems.append(problem("scene", text))
        for name in sorted(masks.keys() - pictures.keys()):
            text = f"{masks[name]}: has no picture; put {IMAGES}/{name}.png there, or remove it"
            found.problems.append(problem("scene", text))
        self._cache.update(found.seen)
        return ScannedScenes(tuple(found.scenes), tuple(found.problems), found.unsettled)

    def _look_at(self, picture: str, mask: str, found: _Findings) -> None:
        seen: list[HashedFile | None] = []
        for path in (picture, mask):
            try:
                seen.append(seen_at_rest(self._folder, path, self._cache, self._clock()))
            except FileNotFoundError:
                return  # removed between listing and looking; the next scan is right again
            except OSError as error:
                found.problems.append(problem("scene", why_unread(path, error)))
                return
        if seen[0] is None or seen[1] is None:
            found.unsettled += 1
            return
        found.seen |= {picture: seen[0], mask: seen[1]}
        digest = scene_digest(seen[0].digest, seen[1].digest)
        found.scenes.append(FoundScene(picture, mask, digest, seen[1].digest))


def named_files(folder: Path, part: str, problems: list[Problem]) -> dict[str, str]:
    """Return the files of `IMAGES` or `MASKS` by name, without folder and suffix, as paths.

    Of two files of one name the first counts, and the other is a problem. Raises `SourceError` if
    the folder is not there.
    """
    if not (folder / part).is_dir():
        raise SourceError(
            f"data.folder: {folder / part}: there is no such folder; mount it, make it, or mend "
            "`[data] folder` in agent.toml"
        )
    files: dict[str, str] = {}
    for path in sample_files(folder, part, _SUFFIXES[part], problems):
        name = str(PurePosixPath(path).relative_to(part).with_suffix(""))
        if name in files:
            text = f"{path}: has the name of {files[name]}; rename or remove one of them"
            problems.append(problem("scene", text))
        else:
            files[name] = path
    return files


def named_scenes(folder: Path) -> list[Scene]:
    """Return the pictures with a mask, by name; raise as `named_files` does."""
    pictures, masks = (named_files(folder, part, []) for part in (IMAGES, MASKS))
    names = sorted(pictures.keys() & masks.keys())
    return [Scene(pictures[name], masks[name], None) for name in names]


def scene_digest(picture: Digest, mask: Digest) -> Digest:
    """Return the digest of a scene from those of its two files."""
    return Digest.of(f"scene {picture} {mask}".encode())


def read_files(folder: Path, scene: Scene) -> tuple[bytes, bytes]:
    """Return the bytes of picture and mask.

    Raises `ImageError` for a file that is too large, and `ChangedError` if one cannot be read or
    is not the one that was found.
    """
    picture, mask = read_limited(folder / scene.picture), read_limited(folder / scene.mask)
    if scene.digest not in {None, scene_digest(Digest.of(picture), Digest.of(mask))}:
        raise ChangedError(f"{folder / scene.picture}: it or its mask has changed since then")
    return picture, mask


def decode_scene(
    scene: Scene, picture: bytes, mask: bytes, mode: Mode
) -> tuple[Image, NDArray[np.uint8]]:
    """Return the picture, upright, and its mask (h, w), whatever its values are.

    Raises `ImageError` naming the file that does not decode, or a mask of another size.
    """
    image = _decode_picture(scene.picture, picture, mode)
    try:
        values = decode_mask(mask)
        check_same_size((image.height, image.width), (values.shape[0], values.shape[1]))
    except ImageError as error:
        raise ImageError(f"{scene.mask}: {error}") from error
    return image, values


def _decode_picture(path: str, data: bytes, mode: Mode) -> Image:
    try:
        image = open_picture(data)
        check_pixels(image)
        return decode_picture(image, mode)
    except ImageError as error:
        raise ImageError(f"{path}: {error}") from error


def read_limited(path: Path) -> bytes:
    """Return a file's bytes; raise `ImageError` if it is too large, else `ChangedError`."""
    working_at(path)
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_FILE_BYTES:
                raise ImageError(f"{path}: {size} bytes exceed {MAX_FILE_BYTES}; scale it down")
            return file.read(MAX_FILE_BYTES)
    except OSError as error:
        raise ChangedError(f"{path}: cannot be read: {error.strerror}") from error
