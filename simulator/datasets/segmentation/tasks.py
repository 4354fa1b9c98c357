"""Scenes as the samples of a fleet: one for every task in which a scene shows anything.

In the overlapped setting a picture comes again with every task of which it has a class, and its
mask then shows the task's classes alone. So a sample is a task and a scene; it counts under the
class with most pixels in its mask, as it does on a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fleetledger.device_agent.kinds import SCENES
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.simulator.datasets.labels import samples_of
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.datasets.segmentation.masks import show_classes
from fleetledger.simulator.datasets.segmentation.samples import (
    LabelledScene,
    SceneSet,
    digest_of,
)
from fleetledger.simulator.errors import DatasetError

Indices = NDArray[np.int64]
Labels = tuple[int, ...]


@dataclass(frozen=True)
class TaskScenes:
    """Scenes by task, the first task's first, each task's by scene; they fit `SampleSet`.

    `scene_of` and `task_of` are int64, (N,): the index in `scenes` of each sample, and the number
    of its task, from 1. A sample's label is that of the class with most pixels in its mask, of
    equal ones the first by name.
    """

    kind = SCENES
    scenes: SceneSet
    tasks: tuple[Labels, ...]
    """The labels of every task; a label is of one task at most."""
    scene_of: Indices = field(repr=False)
    task_of: Indices = field(repr=False)
    _digests: dict[tuple[int, int], Digest] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, scenes: SceneSet, tasks: Sequence[Labels]) -> TaskScenes:
        """Return a sample for every task and scene that shows a class of it."""
        shown = [samples_of(scenes.labels, task) for task in tasks]
        numbers = [np.full(len(part), number) for number, part in enumerate(shown, start=1)]
        nothing = np.empty(0, np.int64)
        return cls(
            scenes,
            tuple(tasks),
            np.concatenate([nothing, *shown]).astype(np.int64),
            np.concatenate([nothing, *numbers]).astype(np.int64),
        )

    def __len__(self) -> int:
        return len(self.scene_of)

    @property
    def class_names(self) -> tuple[ClassName, ...]:
        """Names of all classes, of a task or not."""
        return self.scenes.class_names

    @property
    def owners(self) -> None:
        """Nobody is known to own a scene."""
        return

    @cached_property
    def labels(self) -> Indices:
        """The class with most pixels in each mask, (N,)."""
        labels = np.zeros(len(self), np.int64)
        for number in range(1, len(self.tasks) + 1):
            here = self.task_of == number
            by_name = np.array(self._by_name[number - 1], np.int64)
            pixels = self.scenes.labels[self.scene_of[here]][:, by_name]
            labels[here] = by_name[pixels.argmax(axis=1)]
        return labels

    def shown(self, index: int) -> Labels:
        """Return the labels in one mask, those with most pixels first, of equal ones by name."""
        pixels = self.scenes.labels[self.scene_of[index]]
        there = [label for label in self._by_name[self.task_of[index] - 1] if pixels[label]]
        return tuple(sorted(there, key=lambda label: -int(pixels[label])))

    def scene(self, index: int) -> LabelledScene:
        """Return one picture with the mask that is shown in its task."""
        whole = self.scenes.scene(int(self.scene_of[index]))
        return LabelledScene(whole.picture, self._show(whole.mask, index))

    def mask(self, index: int) -> NDArray[np.uint8]:
        """Return one mask, uint8 (h, w), as it is shown in its task; values are labels plus one."""
        return self._show(self.scenes.mask(int(self.scene_of[index])), index)

    def picture(self, index: int) -> Image.Image:
        """Return one picture, of mode RGB."""
        return self.scenes.picture(int(self.scene_of[index]))

    def digest(self, index: int) -> Digest:
        """Return the digest of one picture and of its mask as it is shown; found out once."""
        key = int(self.scene_of[index]), int(self.task_of[index])
        if key not in self._digests:
            self._digests[key] = digest_of(self.scene(index))
        return self._digests[key]

    @cached_property
    def fingerprint(self) -> Digest:
        """Digest of the scenes, the tasks, and which scene is shown in which."""
        tasks = ";".join(",".join(map(str, task)) for task in self.tasks)
        head = f"{self.scenes.fingerprint} {tasks} ".encode()
        pairs = np.stack([self.scene_of, self.task_of]).astype("<i8")
        return Digest.of(head + pairs.tobytes())

    def take(self, indices: Indices) -> TaskScenes:
        """Return the samples at `indices`, in that order."""
        return TaskScenes(
            self.scenes, self.tasks, self.scene_of[indices], self.task_of[indices], self._digests
        )

    def indices(self, task: int, scenes: Indices) -> Indices:
        """Return the samples, ascending, that some scenes are in a task, by its number from 1.

        Raises `DatasetError` for a scene that shows nothing of the task.
        """
        there = np.flatnonzero((self.task_of == task) & np.isin(self.scene_of, scenes))
        if len(there) != len(np.unique(scenes)):
            lost = np.setdiff1d(scenes, self.scene_of[there])
            raise DatasetError(
                f"scene {int(lost[0])} shows no class of task {task}; deal scenes that do"
            )
        return there.astype(np.int64)

    @cached_property
    def _by_name(self) -> tuple[Labels, ...]:
        """The labels of every task, sorted by their names."""
        names = self.class_names
        return tuple(tuple(sorted(task, key=lambda label: names[label])) for task in self.tasks)

    def _show(self, mask: NDArray[np.uint8], index: int) -> NDArray[np.uint8]:
        return show_classes(mask, self.tasks[int(self.task_of[index]) - 1])


def shown_by(samples: SampleSet, index: int) -> Labels:
    """Return the labels that a sample shows, of several those with most pixels first."""
    if isinstance(samples, TaskScenes):
        return samples.shown(index)
    return (int(samples.labels[index]),)


def shown_labels(samples: SampleSet, indices: Indices) -> set[int]:
    """Return every label that some samples show, whether a sample has one or several."""
    return {label for index in indices.tolist() for label in shown_by(samples, index)}
