"""How pictures with masks get into the folder that an agent looks at.

    images/NAME.png     a picture
    masks/NAME.png      what of it is shown in its task
    classes.toml        names of the values that the masks so far have, and of no others

A device knows of the classes of its own masks alone. Values are those of the data set, so that they
stay what they are when further classes come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

import tomli_w
from PIL import Image

from fleetledger.device_agent.samples.sources.mask_classes import load_mask_classes
from fleetledger.device_agent.samples.sources.scenes import CLASSES, IMAGES, MASKS
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.samples import Content, SampleSet
from fleetledger.simulator.datasets.segmentation.samples import value_of
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes
from fleetledger.simulator.engines.paths import mask_path


def files_of(
    samples: SampleSet, index: int, path: PurePosixPath
) -> Mapping[PurePosixPath, Content]:
    """Return the files of one sample by path: itself, and of a scene its mask."""
    if not isinstance(samples, TaskScenes):
        return {path: samples.picture(index)}
    picture, mask = samples.scene(index)
    return {path: picture, mask_path(path): Image.fromarray(mask)}


def make_folders(folder: Path) -> None:
    """Make the folders of a device that has no pictures yet."""
    for part in (IMAGES, MASKS):
        (folder / part).mkdir(parents=True, exist_ok=True)


def classes_text(folder: Path, samples: TaskScenes, arriving: Iterable[int]) -> str:
    """Return the text of `classes.toml` when these samples are there too."""
    names: dict[int, ClassName] = {}
    if (folder / CLASSES).exists():
        names |= load_mask_classes(folder / CLASSES).names
    for index in arriving:
        names |= {value_of(label): samples.class_names[label] for label in samples.shown(index)}
    return tomli_w.dumps({"classes": {str(value): names[value] for value in sorted(names)}})
