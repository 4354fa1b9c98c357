"""Where a sample lies on a device: the same under every engine, since parts are cut by path."""

from __future__ import annotations

from pathlib import PurePosixPath

from fleetledger.device_agent.samples.sources.scenes import IMAGES, MASKS
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes
from fleetledger.simulator.datasets.text_windows import TextWindows

PICTURE, TEXT = ".png", ".txt"
"""How the files of samples end."""


def suffix_of(samples: SampleSet) -> str:
    """Return how the files of samples end on devices."""
    return TEXT if isinstance(samples, TextWindows) else PICTURE


def sample_path(samples: SampleSet, stage: int, index: int) -> str:
    """Return the path of training sample `index`, which arrived in `stage`, in a data folder.

    Pictures with masks lie in one folder, all others in those of their classes.
    """
    if isinstance(samples, TaskScenes):
        return _path(IMAGES, stage, index, PICTURE)
    name = samples.class_names[samples.labels[index]]
    return image_path(name, stage, index, suffix_of(samples))


def image_path(class_name: ClassName, stage: int, index: int, suffix: str = PICTURE) -> str:
    """Return the path of a sample without a mask, by its class."""
    return _path(class_name, stage, index, suffix)


def mask_path(picture: PurePosixPath) -> PurePosixPath:
    """Return the path of the mask of the picture at a path that `sample_path` made."""
    return PurePosixPath(MASKS, picture.name)


def index_of(path: str) -> int:
    """Return the training sample that lies at a path that these functions made."""
    return int(path[path.rindex("-") + 1 : path.rindex(".")])


def _path(folder: str, stage: int, index: int, suffix: str) -> str:
    return f"{folder}/stage-{stage:02}-{index:06}{suffix}"
