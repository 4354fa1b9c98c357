"""Where a sample lies on a device: the same under every engine, since parts are cut by path."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from fleetledger.device_agent.kinds import PICTURES, SampleKind
from fleetledger.device_agent.samples.sources.scenes import IMAGES, MASKS
from fleetledger.simulator.datasets.samples import SampleSet


def make_folders(folder: Path, kind: SampleKind) -> None:
    """Make the data folder of a device that has no samples yet."""
    for part in (IMAGES, MASKS) if kind.masked else ("",):
        (folder / part).mkdir(parents=True, exist_ok=True)


def sample_path(samples: SampleSet, stage: int, index: int) -> str:
    """Return the path of training sample `index`, which arrived in `stage`, in a data folder.

    Pictures with masks lie in one folder, all others in those of their classes.
    """
    name = samples.class_names[samples.labels[index]]
    folder = IMAGES if samples.kind.masked else name
    return image_path(folder, stage, index, samples.kind.suffix)


def image_path(folder: str, stage: int, index: int, suffix: str = PICTURES.suffix) -> str:
    """Return the path of a sample by its folder: that of its class, unless it has a mask."""
    return f"{folder}/stage-{stage:02}-{index:06}{suffix}"


def mask_path(picture: PurePosixPath) -> PurePosixPath:
    """Return the path of the mask of the picture at a path that `sample_path` made."""
    return PurePosixPath(MASKS, picture.name)


def index_of(path: str) -> int:
    """Return the training sample that lies at a path that these functions made."""
    return int(path[path.rindex("-") + 1 : path.rindex(".")])
