"""Asks the exported model of each stage about the pixels of the test scenes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fleetledger.device_agent.models.inference.installed_model import (
    InferenceSession,
    SessionSettings,
)
from fleetledger.learning.errors import ImageError
from fleetledger.learning.numerics.preprocessing import preprocess, sized_mask, sized_pixels
from fleetledger.schemas.models import FEATURES, SCORES, of_pictures
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.labels import samples_of
from fleetledger.simulator.datasets.segmentation.masks import show_classes
from fleetledger.simulator.datasets.segmentation.samples import BACKGROUND, LabelledScene, value_of
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.errors import DatasetError, RunError
from fleetledger.simulator.features.extraction import cores
from fleetledger.simulator.features.providers import CPU, choose_provider
from fleetledger.simulator.metrics.pixel_answers import PixelAnswers
from fleetledger.simulator.metrics.segmentation import PixelCounts
from fleetledger.simulator.plan.fleet_plan import StagePlan
from fleetledger.simulator.records import InferenceRecord
from fleetledger.simulator.run.evaluation import labels_of, read_manifest
from fleetledger.simulator.run.folder import Kept
from fleetledger.simulator.run.stage_evaluation import Changes, StageEvaluation
from fleetledger.simulator.shown_scenes import ShownScenes, choose_scenes

_MOST_SCENES = 8
"""Of a run, however small they are."""
_MOST_SCORES = 1 << 24
"""Of a run of several scenes: 64 MiB as float32. A scene that has more goes alone."""

Masks = NDArray[np.uint8]
Indices = NDArray[np.int64]


class SceneEvaluation(StageEvaluation):
    """Counts pixels of all test scenes that show a class seen so far.

    Their masks show all classes seen so far, so that those of later stages are background, and are
    of the size at which the network sees the pictures. Raises `RunError` where no test scene shows
    a class of some stage.
    """

    def __init__(self, prepared: Prepared, test: TaskScenes) -> None:
        self._plan = prepared.plan
        self._scenes = test.scenes
        self._provider = choose_provider(prepared.scenario.engine.device)
        self._preprocessing = of_pictures(prepared.preprocessing)
        for stage in self._plan.stages:
            if not samples_of(test.scenes.labels, stage.classes).size:
                raise RunError(
                    f"stage {stage.number}: no test scene shows any of its classes; give test "
                    "scenes that do, or leave the stage out"
                )

    def nothing(self) -> Kept:
        """Return the answers of no stage, with the scenes that are to be shown."""
        chosen = [self._scenes.scene(int(index)) for index in self._chosen()]
        truth = self._truth(chosen, self._plan.seen(len(self._plan.stages)))
        colour = self._preprocessing.model_copy(update={"mode": "RGB"})
        pictures = [sized_pixels(scene.picture, colour).transpose(2, 0, 1) for scene in chosen]
        said = np.empty((0, *truth.shape), np.uint8)
        shown = ShownScenes(np.stack(pictures), truth, said, self._plan.class_names)
        return Kept(PixelAnswers.none(self._plan.stages_of_classes()), shown)

    def fits(self, kept: Kept) -> bool:
        """Return whether answers are about the classes of this seed, with scenes beside them."""
        return (
            isinstance(kept.answers, PixelAnswers)
            and kept.scenes is not None
            and np.array_equal(kept.answers.stage_of_class, self._plan.stages_of_classes())
            and kept.scenes.class_names == self._plan.class_names
        )

    def ask(self, stage: StagePlan, model_folder: Path, kept: Kept) -> tuple[Changes, Kept]:
        """Return what the asking took, and the answers with the stage's."""
        assert isinstance(kept.answers, PixelAnswers)
        assert kept.scenes is not None
        model = DenseModel(model_folder, self._plan.class_names, self._provider)
        seen = self._plan.seen(stage.number)
        asked = samples_of(self._scenes.labels, seen)
        counts = PixelCounts.none(len(self._plan.class_names))
        for first in range(0, len(asked), model.batch):
            indices = asked[first : first + model.batch]
            scenes = [self._scenes.scene(int(index)) for index in indices]
            predicted = model.values([scene.picture for scene in scenes])
            truth = self._truth(scenes, seen)
            counts += PixelCounts.of(truth, predicted, len(self._plan.class_names))
        inference = InferenceRecord(
            scenes=len(asked),
            seconds=model.seconds,
            provider=model.provider,
            threads=model.threads,
            batch=model.batch,
        )
        after = Kept(kept.answers.after(counts), kept.scenes.after(self._said(model)))
        return {"inference": inference}, after

    def _chosen(self) -> Indices:
        return choose_scenes(self._scenes.labels, self._plan.seen(len(self._plan.stages)))

    def _said(self, model: DenseModel) -> Masks:
        pictures = [self._scenes.picture(int(index)) for index in self._chosen()]
        batches = range(0, len(pictures), model.batch)
        return np.concatenate([model.values(pictures[i : i + model.batch]) for i in batches])

    def _truth(self, scenes: Sequence[LabelledScene], seen: tuple[int, ...]) -> Masks:
        """Return masks (n, H, W) that show the classes `seen`, as the network sees the pictures."""
        try:
            masks = [sized_mask(scene.mask, self._preprocessing) for scene in scenes]
        except ImageError as error:
            raise DatasetError(f"data: a mask cannot be used: {error}") from error
        return show_classes(np.stack(masks), seen)


class DenseModel:
    """The model in a folder, and the seconds that its two files took so far."""

    def __init__(self, folder: Path, class_names: Sequence[ClassName], provider: str) -> None:
        """Load both files; raise `RunError` for a model of something else, or `LoadError`."""
        manifest = read_manifest(folder)
        if manifest.answers != "pixels":
            raise RunError(
                f"{folder}: the model gives whole pictures a class, where the data set has masks; "
                "take a method whose network gives pixels classes"
            )
        self.preprocessing = of_pictures(manifest.preprocessing)
        """How a picture becomes what the network sees."""
        self.provider = provider
        self.seconds = 0.0
        self.threads = cores()
        values = [
            value_of(int(label)) for label in labels_of(manifest.class_names[1:], class_names)
        ]
        self._value_of_row = np.array([BACKGROUND, *values], np.uint8)
        scores = len(manifest.class_names) * int(np.prod(self.preprocessing.size))
        self.batch = max(1, min(_MOST_SCENES, _MOST_SCORES // scores))
        """Scenes of a run."""
        providers = (provider,) if provider == CPU else (provider, CPU)
        settings = SessionSettings(providers, self.threads, self.batch)
        self._trunk = InferenceSession(folder / manifest.frozen.digest, settings)
        self._head = InferenceSession(folder / manifest.head.digest, settings)

    def values(self, pictures: Sequence[Image.Image]) -> NDArray[np.uint8]:
        """Return the value of the best score of each pixel, (n, H, W), of at most `batch` pictures.

        Raises `DatasetError` for a picture that cannot be used, `LoadError` where a run fails.
        """
        try:
            inputs = np.stack([preprocess(picture, self.preprocessing) for picture in pictures])
        except ImageError as error:
            raise DatasetError(f"data: a scene cannot be used: {error}") from error
        began = time.perf_counter()
        scores = self._head.run(SCORES, self._trunk.run(FEATURES, inputs))
        self.seconds += time.perf_counter() - began
        values: NDArray[np.uint8] = self._value_of_row[scores.argmax(axis=1)]
        return values
