"""Training pictures with masks at the size of a network, as a device reads them from its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleetledger.device_agent.core.records import ImageToCount
from fleetledger.learning.errors import ImageError
from fleetledger.learning.numerics.preprocessing import sized_mask, sized_pixels
from fleetledger.methods.training.exchange import LocalData
from fleetledger.schemas.arrays import ArrayPreprocessing
from fleetledger.schemas.models import Preprocessing, of_pictures
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.datasets.segmentation.masks import show_classes
from fleetledger.simulator.datasets.segmentation.samples import SceneSet, value_of
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes
from fleetledger.simulator.engines.paths import index_of
from fleetledger.simulator.errors import DatasetError
from fleetledger.simulator.virtual.pictures import Pixels, SizedPictures, SizedRows

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class VisibleScenes:
    """Scenes that show a class at the size of a network, as `LocalData` has them."""

    rows: Indices
    """(n,): which of the asked ones they are, ascending."""
    pictures: Pixels
    masks: Pixels
    """(n, h, w); the name of the value v is number v - 1 of `mask_class_names`."""
    class_names: tuple[ClassName, ...]
    """Of each scene, the class with most pixels at that size."""
    mask_class_names: tuple[ClassName, ...]
    """Sorted."""


class SizedScenes:
    """Pictures uint8 (n, c, h, w) and masks (n, h, w) of some samples.

    What is kept is kept by scene, which may be a sample of several tasks.
    """

    def __init__(self, samples: TaskScenes, preprocessing: Preprocessing) -> None:
        self._samples = samples
        shape = (preprocessing.channels + 1, *preprocessing.size)  # the mask is the last channel
        self._rows = SizedRows(
            len(samples.scenes),
            np.empty((0, *shape), np.uint8),
            lambda index: _read(samples.scenes, index, preprocessing),
        )

    def __call__(self, indices: Sequence[int] | Indices) -> Pixels:
        """Return the pictures at `indices`; raise `DatasetError` for one that cannot be used."""
        return self._both(np.asarray(indices, np.int64))[0]

    def shown(self, indices: Sequence[int] | Indices) -> VisibleScenes:
        """Return those of some samples that show a class of their task; raise `DatasetError`.

        Masks have the values that a device gives them, which knows these samples' classes alone.
        """
        places = np.asarray(indices, np.int64)
        names = self._class_names(places)
        pictures, whole = self._both(places)
        masks = self._on_device(places, whole, names)
        pixels = [np.bincount(mask.ravel(), minlength=256)[1 : 1 + len(names)] for mask in masks]
        counts = np.array(pixels, np.int64).reshape(len(masks), len(names))
        rows = np.flatnonzero(counts.any(axis=1))
        most = counts[rows].argmax(axis=1) if len(rows) else rows
        return VisibleScenes(
            rows, pictures[rows], masks[rows], tuple(names[label] for label in most), names
        )

    def local_data(self, images: Sequence[ImageToCount]) -> LocalData:
        """Return what a device trains on that has these images; raise `DatasetError`."""
        shown = self.shown([index_of(image.path) for image in images])
        return LocalData(
            shown.pictures,
            shown.class_names,
            tuple(images[row].digest for row in shown.rows),
            masks=shown.masks,
            mask_class_names=shown.mask_class_names,
        )

    def _class_names(self, places: Indices) -> tuple[ClassName, ...]:
        names = self._samples.class_names
        labels = {label for index in places for label in self._samples.shown(int(index))}
        return tuple(sorted(names[label] for label in labels))

    def _on_device(self, places: Indices, masks: Pixels, names: Sequence[ClassName]) -> Pixels:
        """Return masks as they are shown in their tasks, with the values of sorted names."""
        samples = self._samples
        value_on_device = np.arange(256, dtype=np.uint8)
        for value, name in enumerate(names, start=1):
            value_on_device[value_of(samples.class_names.index(name))] = value
        shown = np.empty_like(masks)
        task_of = samples.task_of[places]
        for task in np.unique(task_of):
            here = task_of == task
            shown[here] = value_on_device[show_classes(masks[here], samples.tasks[task - 1])]
        return shown

    def _both(self, places: Indices) -> tuple[Pixels, Pixels]:
        """Return pictures and whole masks."""
        rows = self._rows(self._samples.scene_of[places])
        return np.ascontiguousarray(rows[:, :-1]), np.ascontiguousarray(rows[:, -1])


def _read(scenes: SceneSet, index: int, spec: Preprocessing) -> Pixels:
    picture, mask = sized_scene(scenes, index, spec)
    return np.concatenate([picture, mask[np.newaxis]])


def sized_scene(scenes: SceneSet, index: int, spec: Preprocessing) -> tuple[Pixels, Pixels]:
    """Return a picture (c, h, w) and its whole mask (h, w) at the size of a network.

    Raises `DatasetError` for a scene that cannot be used.
    """
    picture, mask = scenes.scene(index)
    try:
        return sized_pixels(picture, spec).transpose(2, 0, 1), sized_mask(mask, spec)
    except ImageError as error:
        raise DatasetError(f"data: a picture cannot be used: {error}") from error


def sized_samples(
    samples: SampleSet, spec: Preprocessing | ArrayPreprocessing
) -> SizedPictures | SizedScenes:
    """Return the samples as a network takes them, with masks where they have some."""
    if isinstance(samples, TaskScenes):
        return SizedScenes(samples, of_pictures(spec))
    return SizedPictures(samples, spec)
