"""A data folder for segmentation: pictures, a mask for each, and what the masks' values are called.

    images/NAME.png     a picture, in any format that is read
    masks/NAME.png      its mask, of the same size: palette indices or 8-bit grey values
    classes.toml        below [classes] the name of each value, like `1 = "cat"`

- NAME may have folders in it, the same below `images` and `masks`; names that begin with a dot are
  left alone.
- In a mask 0 is background and 255 is left out of everything.
- A picture with its mask is a scene. Its digest covers both files, so a mask that was mended makes
  another scene. It does not cover classes.toml: a value keeps its class for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import numpy as np

from fleetledger.device_agent.core.notices import problem
from fleetledger.device_agent.core.records import ImageToCount
from fleetledger.device_agent.errors import SourceError
from fleetledger.device_agent.kinds import SCENES
from fleetledger.device_agent.samples.images import Mask, MaskFile, PictureFile
from fleetledger.device_agent.samples.sources.folder import sample_files
from fleetledger.device_agent.samples.sources.masks import (
    BACKGROUND,
    IGNORED,
    load_mask_classes,
    pixels_of,
)
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.values import ClassName

IMAGES, MASKS, CLASSES = "images", "masks", "classes.toml"
_FILES = {IMAGES: SCENES, MASKS: replace(SCENES, suffixes=frozenset((".png",)))}
MEND_VALUES = f"write its class into {CLASSES}, or mend the mask"
"""The way out where a mask has a value without a class."""


def named_files(folder: Path, part: str, problems: list[Problem]) -> dict[str, str]:
    """Return the files of `IMAGES` or `MASKS` by name, without folder and suffix, as paths.

    Of two files of one name the first counts, and the other is a problem. Raises `SourceError` if
    the folder is not there, so that a disk that is not mounted is never taken for an empty one.
    """
    if not (folder / part).is_dir():
        raise SourceError(
            f"data.folder: {folder / part}: there is no such folder; mount it, make it, or mend "
            "`[data] folder` in agent.toml"
        )
    files: dict[str, str] = {}
    for path in sample_files(folder, part, _FILES[part], problems):
        name = str(PurePosixPath(path).relative_to(part).with_suffix(""))
        if name in files:
            text = f"{path}: has the name of {files[name]}; rename or remove one of them"
            problems.append(problem("scene", text))
        else:
            files[name] = path
    return files


def named_scenes(folder: Path, values: Collection[int]) -> list[PictureFile]:
    """Return the pictures with a mask, by name; raise as `named_files` does."""
    pictures, masks = (named_files(folder, part, []) for part in (IMAGES, MASKS))
    return [
        PictureFile(folder / pictures[name], mask=MaskFile(folder / masks[name], values))
        for name in sorted(pictures.keys() & masks.keys())
    ]


@dataclass(frozen=True, eq=False)
class RenamedMasks:
    """Values of masks by the names that classes have now; values of one name become one."""

    class_names: tuple[ClassName, ...]
    """Sorted; the name of the value v is number v - 1."""
    value_of: Mask
    """(256,): for each value of a file."""

    def shown(self, mask: Mask) -> list[ClassName]:
        """Return the classes that a renamed mask shows, that with most pixels first."""
        pixels = pixels_of(mask).items()
        return most_first(
            {
                self.class_names[value - 1]: count
                for value, count in pixels
                if value not in {BACKGROUND, IGNORED}
            }
        )


def renamed_masks(
    names: Mapping[int, ClassName], aliases: Mapping[ClassName, ClassName]
) -> RenamedMasks:
    """Return the values of masks under the names that `aliases` give to those of classes.toml."""
    now = {value: aliases.get(name, name) for value, name in names.items()}
    class_names = tuple(sorted(set(now.values())))
    value_of = np.zeros(256, np.uint8)
    value_of[IGNORED] = IGNORED
    for value, name in now.items():
        value_of[value] = 1 + class_names.index(name)
    return RenamedMasks(class_names, value_of)


def most_first(pixels: Mapping[ClassName, int]) -> list[ClassName]:
    """Return the classes by their pixels, most first, and by name where they have as many."""
    return sorted(pixels, key=lambda name: (-pixels[name], name))


def scene_files(images: Sequence[ImageToCount], folder: Path) -> list[PictureFile]:
    """Return the files of images that a scan found; raise `SourceError`."""
    values = load_mask_classes(folder / CLASSES).names
    masks = named_files(folder, MASKS, [])
    files: list[PictureFile] = []
    for image in images:
        name = str(PurePosixPath(image.path).relative_to(IMAGES).with_suffix(""))
        mask = MaskFile(folder / masks.get(name, f"{MASKS}/{name}.png"), values)
        files.append(PictureFile(folder / image.path, image.digest, mask))
    return files
