"""A data folder of scenes as the agent's rules see it: images, each with the classes it shows.

- A scene counts under the class with most pixels in its mask; the others stand beside it.
- A mask is read once: what it shows is kept by its digest. Names are looked up at every scan, so a
  class that is renamed in classes.toml has its new name at once.
- A scene is left out while its mask cannot be read, or has a value that classes.toml lacks.
- One that shows nothing but background and 255 is no sample. All such are one problem, and so are
  all masks with the same unknown value, because a folder may have thousands of either.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from fleetledger.device_agent.core.inputs import Image, Scanned
from fleetledger.device_agent.core.notices import problem
from fleetledger.device_agent.samples.images import ChangedError, read_limited, scene_digest
from fleetledger.device_agent.samples.sources.cache import DigestCache
from fleetledger.device_agent.samples.sources.folder import Findings
from fleetledger.device_agent.samples.sources.masks import load_mask_classes, unknown_values
from fleetledger.device_agent.samples.sources.scenes import (
    CLASSES,
    IMAGES,
    MASKS,
    MEND_VALUES,
    most_first,
    named_files,
)
from fleetledger.device_agent.samples.sources.shown_classes import ShownCache, ShownClasses, look_at
from fleetledger.learning.errors import ImageError
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.values import ClassName, Digest


class _Scene(NamedTuple):
    picture: str
    mask: str
    digest: Digest
    mask_digest: Digest


@dataclass
class _Findings(Findings):
    """Findings of a scan of scenes."""

    scenes: list[_Scene] = field(default_factory=list)
    nameless: dict[int, list[str]] = field(default_factory=dict)
    """Masks by a value that no class has."""
    empty: list[str] = field(default_factory=list)
    """Masks that show no class."""


class SceneFolder:
    """Scans a data folder of scenes; for one thread."""

    def __init__(
        self,
        folder: Path,
        digests: DigestCache,
        shown: ShownCache,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._digests = digests
        self._shown = shown
        self._clock = clock

    def scan(self) -> Scanned:
        """Return all scenes at rest that show a class, sorted by path, and what is to be mended.

        A picture or a mask alone is a problem. Raises `SourceError` if one of the folders is not
        there, or classes.toml is of no use.
        """
        found = _Findings(self._folder, self._digests, self._clock())
        self._find(found)
        self._digests.update(found.seen)
        # A folder that is empty yet needs no names.
        names = load_mask_classes(self._folder / CLASSES).names if found.scenes else {}
        for scene in found.scenes:
            self._sort(scene, names, found)
        self._shown.keep({scene.mask_digest for scene in found.scenes})
        found.problems += _in_short(found)
        return found.scanned()

    def rescan(self, paths: Iterable[str]) -> None:
        """Read pictures again, and their masks, that could not be read since."""
        for path in paths:
            name = PurePosixPath(path).relative_to(IMAGES).with_suffix("")
            self._digests.forget([path, f"{MASKS}/{name}.png"])

    def _find(self, found: _Findings) -> None:
        pictures = named_files(self._folder, IMAGES, found.problems)
        masks = named_files(self._folder, MASKS, found.problems)
        for name in sorted(pictures.keys() & masks.keys()):
            picture, mask = pictures[name], masks[name]
            if files := found.at_rest("scene", picture, mask):
                digests = [file.digest for file in files]
                found.scenes.append(_Scene(picture, mask, scene_digest(*digests), digests[1]))
        for name in sorted(pictures.keys() - masks.keys()):
            text = f"{pictures[name]}: has no mask; put {MASKS}/{name}.png beside it, or remove it"
            found.problems.append(problem("scene", text))
        for name in sorted(masks.keys() - pictures.keys()):
            text = f"{masks[name]}: has no picture; put {IMAGES}/{name}.png there, or remove it"
            found.problems.append(problem("scene", text))

    def _sort(self, scene: _Scene, names: Mapping[int, ClassName], found: _Findings) -> None:
        try:
            shown = self._shown_by(scene)
        except ChangedError:
            return  # the next scan is right again
        if shown.fault:
            text = f"{scene.mask}: {shown.fault}; left out until it changes"
            found.problems.append(problem("scene", text))
            return
        nameless = unknown_values(shown.pixels, names)
        for value in nameless:
            found.nameless.setdefault(value, []).append(scene.mask)
        pixels = {names[value]: count for value, count in shown.pixels.items() if value in names}
        if nameless:
            return
        if not pixels:
            found.empty.append(scene.mask)
            return
        first, *others = most_first(pixels)
        found.images.append(Image(scene.picture, scene.digest, first, tuple(sorted(others))))

    def _shown_by(self, scene: _Scene) -> ShownClasses:
        """Return what a mask shows, reading it at most once; raise `ChangedError`."""
        shown = self._shown.get(scene.mask_digest)
        if shown is None:
            try:
                data = read_limited(self._folder / scene.mask)
            except ImageError as error:
                return ShownClasses(fault=str(error))
            if Digest.of(data) != scene.mask_digest:
                raise ChangedError(f"{scene.mask}: has changed since it was found")
            shown = look_at(data)
            self._shown.put(scene.mask_digest, shown)
        return shown


def _in_short(result: _Findings) -> list[Problem]:
    told = [
        problem("scene", f"{_some(masks)}: no class has the value {value}; {MEND_VALUES}")
        for value, masks in sorted(result.nameless.items())
    ]
    if result.empty:
        text = (
            f"{MASKS}: nothing but background and 255 in {_some(result.empty)}; such scenes show "
            "no class and are left out"
        )
        told.append(problem("scene", text))
    return told


def _some(paths: list[str]) -> str:
    """Name one of the paths, in words that stay the same while their number grows."""
    return min(paths) + (" and others" if len(paths) > 1 else "")
