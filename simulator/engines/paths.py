"""Where a sample lies on a device: the same under every engine, since parts are cut by path."""

from __future__ import annotations

from schemas.values import ClassName
from simulator.datasets.samples import Samples
from simulator.datasets.text_windows import TextWindows

PICTURE, TEXT = ".png", ".txt"
"""How the files of samples end."""


def suffix_of(samples: Samples) -> str:
    """Return how the files of samples end on devices."""
    return TEXT if isinstance(samples, TextWindows) else PICTURE


def image_path(class_name: ClassName, stage: int, index: int, suffix: str = PICTURE) -> str:
    """Return the path of training sample `index`, which arrived in `stage`, in a data folder."""
    return f"{class_name}/stage-{stage:02}-{index:06}{suffix}"


def index_of(path: str) -> int:
    """Return the training sample that lies at a path that `image_path` made."""
    return int(path[path.rindex("-") + 1 : path.rindex(".")])
