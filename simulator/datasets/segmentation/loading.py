"""From the `[data]` of a scenario to pictures with masks: one line for each data set."""

from __future__ import annotations

import numpy as np

from fleetledger.schemas.count_words import count_of
from fleetledger.simulator.datasets.roots import root_of
from fleetledger.simulator.datasets.segmentation.ade20k import load_ade20k
from fleetledger.simulator.datasets.segmentation.camvid import load_camvid
from fleetledger.simulator.datasets.segmentation.digit_scenes import split_digit_scenes
from fleetledger.simulator.datasets.segmentation.npz import load_segmentation_npz
from fleetledger.simulator.datasets.segmentation.samples import SegmentedSamples, SegmentedSplit
from fleetledger.simulator.datasets.segmentation.voc import load_voc
from fleetledger.simulator.errors import DatasetError
from fleetledger.simulator.scenario.sections import SCENES, DataSettings


def load_segmentation(data: DataSettings, seed: int) -> SegmentedSplit:
    """Return the data set in two parts, with the first pictures of each class that `data` allows.

    `seed` draws those that are made on the spot. Raises `DatasetError` that says what is missing,
    and what to put where.
    """
    split = _whole(data, seed)
    limited = SegmentedSplit(
        train=_limited(split.train, data.per_class), test=_limited(split.test, data.test_per_class)
    )
    if not len(limited.train) or not len(limited.test):
        raise DatasetError(
            f"data: {count_of(len(limited.train), 'picture')} to learn from and "
            f"{len(limited.test)} to be asked about show a class; both are needed: add pictures"
        )
    return limited


def _whole(data: DataSettings, seed: int) -> SegmentedSplit:
    match data.set:
        case "digit-scenes":
            return split_digit_scenes(data.scenes, seed, data.test_share)
        case "voc":
            return load_voc(root_of(data))
        case "ade20k":
            return load_ade20k(root_of(data))
        case "camvid":
            return load_camvid(root_of(data))
        case "segmentation-npz":
            return load_segmentation_npz(root_of(data, "the .npz file"))
        case _:
            raise DatasetError(
                f"data.set: {data.set!r} has no masks; give one of {', '.join(SCENES)}"
            )


def _limited(samples: SegmentedSamples, per_class: int | None) -> SegmentedSamples:
    if per_class is None:
        return samples
    first = samples.presence & (samples.presence.cumsum(axis=0) <= per_class)
    return samples.take(np.flatnonzero(first.any(axis=1)).astype(np.int64))
