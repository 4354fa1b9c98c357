"""How images get into the folder that an agent looks at: all of a delivery, as good as at once.

Files are written beside the folder and moved in, so that nobody meets half a file. Agents that look
only when they start or a stage is opened find everything there: such files have an older time of
change, so that no scan waits for them to settle.

Where agents keep looking, a scan takes time, and files are moved one after another. What keeps it
from counting half a delivery:

- Files get a fresh time of change right before the first move. A scan that meets any file younger
  than a second counts nothing and looks again (`device_agent.core.scans`). So whoever sees some
  files of a delivery and not the others waits, for as long as moving and scanning take less than a
  second together.
- A class folder that is not there yet is moved in whole, since an empty one would be reported.
- What pictures need comes before them: names of classes first, then masks.
  A device has names for the values that its own masks so far have, those of the data set: they stay
  what they are when further classes come.
- New classes are counted only when their stage is opened, and agents look again for that; by then
  everything is there, however long it took.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

import tomli_w
from PIL import Image

from fleetledger.device_agent.samples.sources.folder import SETTLE_SECONDS
from fleetledger.device_agent.samples.sources.masks import load_mask_classes
from fleetledger.device_agent.samples.sources.scenes import CLASSES, IMAGES
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.samples import Content, SampleSet
from fleetledger.simulator.datasets.segmentation.samples import value_of
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes
from fleetledger.simulator.engines.paths import mask_path

_FAST = 1
"""zlib's fastest level: the files are read once, on this machine."""


def deliver(
    folder: Path,
    samples: SampleSet,
    paths: Mapping[int, PurePosixPath],
    *,
    settled: bool = False,
) -> None:
    """Write `samples` into `folder`, pictures as PNG files, each under its index's path.

    A path is `<class name>/<file name>`. Files that are there already stay, so that a delivery
    that was broken off is finished by delivering again.
    """
    prepare(folder, samples, paths)
    hand_over(folder, settled=settled)


def prepare(folder: Path, samples: SampleSet, paths: Mapping[int, PurePosixPath]) -> None:
    """Write what `folder` lacks of a delivery beside it, where nobody looks.

    Pictures are moved in last, so one that is there is there with its mask.
    """
    beside = _beside(folder)
    shutil.rmtree(beside, ignore_errors=True)  # what was broken off
    missing = {index: path for index, path in paths.items() if not (folder / path).exists()}
    for index, path in missing.items():
        for place, content in files_of(samples, index, path).items():
            (beside / place).parent.mkdir(parents=True, exist_ok=True)
            _write(beside / place, content)
    if missing and isinstance(samples, TaskScenes):
        text = classes_text(folder, samples, missing)
        (beside / CLASSES).write_text(text, encoding="utf-8")


def hand_over(folder: Path, *, settled: bool = False) -> None:
    """Move in what was prepared; nothing happens where nothing was.

    `settled` says that nobody looks meanwhile: files count at the next scan, without a wait.
    """
    beside = _beside(folder)
    if not beside.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    parts = sorted(beside.iterdir(), key=_order)
    files = {part: sorted(part.iterdir()) if part.is_dir() else [] for part in parts}
    changed = time.time() - (2 * SETTLE_SECONDS if settled else 0)
    for file in (file for of_part in files.values() for file in of_part):
        os.utime(file, (changed, changed))
    for part in parts:
        target = folder / part.name
        if not (part.is_dir() and target.exists()):
            part.replace(target)
            continue
        for file in files[part]:
            file.rename(target / file.name)
    shutil.rmtree(beside)


def _order(part: Path) -> tuple[bool, bool, str]:
    """Return a sort key by which nothing comes before what it needs."""
    return part.is_dir(), part.name == IMAGES, part.name


def files_of(
    samples: SampleSet, index: int, path: PurePosixPath
) -> Mapping[PurePosixPath, Content]:
    """Return the files of one sample by path: itself, and of a scene its mask."""
    if not isinstance(samples, TaskScenes):
        return {path: samples.picture(index)}
    picture, mask = samples.scene(index)
    return {path: picture, mask_path(path): Image.fromarray(mask)}


def classes_text(folder: Path, samples: TaskScenes, arriving: Iterable[int]) -> str:
    """Return the text of `classes.toml` when these samples are there too."""
    names: dict[int, ClassName] = {}
    if (folder / CLASSES).exists():
        names |= load_mask_classes(folder / CLASSES).names
    for index in arriving:
        names |= {value_of(label): samples.class_names[label] for label in samples.shown(index)}
    return tomli_w.dumps({"classes": {str(value): names[value] for value in sorted(names)}})


def _write(path: Path, sample: Content) -> None:
    """Write a sample; a picture as a PNG file."""
    if isinstance(sample, bytes):
        path.write_bytes(sample)
    else:
        sample.save(path, compress_level=_FAST)


def _beside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}")
