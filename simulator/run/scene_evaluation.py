"""Asks the exported model of each stage about the pixels of the test scenes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fleetledger.device_agent.inference.installed_model import InferenceSession, SessionSettings
from fleetledger.learning.errors import ImageError
from fleetledger.learning.numerics.preprocessing import preprocess, sized_mask, sized_pixels
from fleetledger.schemas.models import FEATURES, SCORES, of_pictures
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.segmentation.masks import show_classes
from fleetledger.simulator.datasets.segmentation.samples import BACKGROUND, LabelledScene, value_of
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.errors import DatasetError, RunError
from fleetledger.simulator.features.extraction import cores
from fleetledger.simulator.features.providers import CPU, choose_provider
from fleetledger.simulator.metrics.any_answers import Kept
from fleetledger.simulator.metrics.pixel_answers import PixelAnswers
from fleetledger.simulator.metrics.segmentation import PixelCounts
from fleetledger.simulator.plan.fleet_plan import StagePlan
from fleetledger.simulator.plan.segmentation.overlapped import pictures_with
from fleetledger.simulator.records import InferenceRecord, StageRecord
from fleetledger.simulator.run.evaluation import labels_of, read_manifest
from fleetledger.simulator.run.folder import SeedFolder
from fleetledger.simulator.shown_scenes import ShownScenes, choose_scenes

_MOST_SCENES = 8
"""Of a run, however small they are."""
_MOST_SCORES = 1 << 24
"""Of a run of several scenes: 64 MiB as float32. A scene that has more goes alone."""

Masks = NDArray[np.uint8]
Indices = NDArray[np.int64]


class SceneEvaluation:
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
            if not test.scenes.presence[:, list(stage.classes)].any():
                raise RunError(
                    f"stage {stage.number}: no test scene shows any of its classes; give test "
                    "scenes that do, or leave the stage out"
                )

    def kept(self, folder: SeedFolder, finished: int) -> Kept:
        """Return what a folder has of its finished stages; raise `RunError` for another seed's."""
        stage_of_class = self._plan.stages_of_classes()
        if not finished:
            return Kept(PixelAnswers.none(stage_of_class), self._nothing_shown())
        answers, scenes = folder.answers(), folder.scenes()
        if (
            not isinstance(answers, PixelAnswers)
            or scenes is None
            or min(answers.stages, scenes.stages) < finished
            or not np.array_equal(answers.stage_of_class, stage_of_class)
            or scenes.class_names != self._plan.class_names
        ):
            raise RunError(
                f"{folder.root}: its predictions do not belong to its stages; delete the folder, "
                "and the seed is run again"
            )
        return Kept(answers.first(finished), scenes.first(finished))

    def after(
        self, stage: StagePlan, record: StageRecord, model_folder: Path, kept: Kept
    ) -> tuple[StageRecord, Kept]:
        """Return the record with what the asking took, and the answers with the stage's."""
        assert isinstance(kept.answers, PixelAnswers)
        assert kept.scenes is not None
        began = time.perf_counter()
        model = DenseModel(model_folder, self._plan.class_names, self._provider)
        seen = self._plan.seen(stage.number)
        asked = pictures_with(self._scenes.presence, seen)
        counts = PixelCounts.none(len(self._plan.class_names))
        for indices in _chunks(asked, model.batch):
            scenes = self._read(indices)
            truth = self._truth(scenes, seen)
            predicted = model.values([_picture(scene) for scene in scenes])
            counts += PixelCounts.of(truth, predicted, len(self._plan.class_names))
        inference = InferenceRecord(
            scenes=len(asked),
            seconds=model.seconds,
            provider=model.provider,
            threads=model.threads,
            batch=model.batch,
        )
        said = self._said(model)
        spent = record.seconds.get("evaluation", 0.0) + time.perf_counter() - began
        changes = {"inference": inference, "seconds": {**record.seconds, "evaluation": spent}}
        after = Kept(kept.answers.after(counts), kept.scenes.after(said))
        return record.model_copy(update=changes), after

    def _chosen(self) -> Indices:
        return choose_scenes(self._scenes.pixels, self._plan.seen(len(self._plan.stages)))

    def _said(self, model: DenseModel) -> Masks:
        pictures = [_picture(scene) for scene in self._read(self._chosen())]
        batches = range(0, len(pictures), model.batch)
        return np.concatenate([model.values(pictures[i : i + model.batch]) for i in batches])

    def _nothing_shown(self) -> ShownScenes:
        """Return the scenes that are to be shown, before any model said anything of them."""
        chosen = self._read(self._chosen())
        truth = self._truth(chosen, self._plan.seen(len(self._plan.stages)))
        colour = self._preprocessing.model_copy(update={"mode": "RGB"})
        pictures = [sized_pixels(_picture(scene), colour).transpose(2, 0, 1) for scene in chosen]
        said = np.empty((0, *truth.shape), np.uint8)
        return ShownScenes(np.stack(pictures), truth, said, self._plan.class_names)

    def _read(self, indices: Indices) -> list[LabelledScene]:
        return [self._scenes.scene(int(index)) for index in indices]

    def _truth(self, scenes: Sequence[LabelledScene], seen: tuple[int, ...]) -> Masks:
        """Return masks (n, H, W) that show the classes `seen`, as the network sees the pictures."""
        try:
            masks = [sized_mask(scene.mask, self._preprocessing) for scene in scenes]
        except ImageError as error:
            raise DatasetError(f"data: a mask cannot be used: {error}") from error
        return show_classes(np.stack(masks), seen)


def _picture(scene: LabelledScene) -> Image.Image:
    return Image.fromarray(np.ascontiguousarray(scene.picture.transpose(1, 2, 0)))


def _chunks(indices: Indices, size: int) -> Iterator[Indices]:
    for first in range(0, len(indices), size):
        yield indices[first : first + size]


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
