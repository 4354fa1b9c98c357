"""One seed of a run: stage by stage through the engine, each kept before the next begins."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from export.backbone import import_backbone
from methods.registry import load_coordinator
from simulator.engines.interface import Engine, Prepared
from simulator.errors import RunError
from simulator.features.interface import (
    Floats,
    FrozenFeatures,
    FrozenModel,
    Indices,
    own_features,
)
from simulator.metrics.answers import NO_ANSWER, Answers
from simulator.plan.fleet_plan import FleetPlan, StagePlan
from simulator.records import StageRecord
from simulator.run.evaluating import ExportedFeatures, predict, read_manifest
from simulator.run.folder import SeedFolder
from simulator.run.model_copy import copy_model
from simulator.run.pooled import PooledReference
from simulator.run.progress import Screen
from simulator.scenario.trainer import trains_on_features, trains_on_pictures

RIDGE = "ridge_value"
"""What the settings of methods that solve a ridge regression have."""
_ANY_WIDTH = 1
"""Of a network that the fleet trained: its features are those of the whole frozen model."""
MakeEngine = Callable[[Prepared, Path, Screen], Engine]


def run_seed(
    prepared: Prepared, folder: SeedFolder, make_engine: MakeEngine, screen: Screen
) -> tuple[tuple[StageRecord, ...], Answers]:
    """Bring a seed to its end from wherever it is; return its records and answers.

    Finished stages are kept; one that was begun is finished by the engine. Raises `EngineError`
    when the fleet does not get through a stage, `RunError` for a folder of another run.
    """
    records = list(folder.records())
    stages = prepared.plan.stages
    _check_records(folder, records, prepared.plan)
    answers = _answers(folder, prepared, len(records))
    if len(records) < len(stages):
        with closing(make_engine(prepared, folder.root, screen)) as engine:
            evaluation = _Evaluation(prepared, engine)
            for stage in stages[len(records) :]:
                screen.stage(stage.number, len(stages))
                record, answers = evaluation.after(stage, engine.learn(stage), answers)
                if stage is stages[-1]:
                    copy_model(engine.model_folder(record), folder.model)
                folder.finish_stage(record, answers)
                records.append(record)
                screen.say(_told(prepared.plan.seed, record, answers))
    return tuple(records), answers


class _Evaluation:
    """Asks the model of each stage about the test samples of all classes seen by then."""

    def __init__(self, prepared: Prepared, engine: Engine) -> None:
        self._prepared = prepared
        self._engine = engine
        self._features: FrozenFeatures | None = None
        self._reference: PooledReference | None = None

    def after(
        self, stage: StagePlan, record: StageRecord, answers: Answers
    ) -> tuple[StageRecord, Answers]:
        """Return the record with what is measured here, and the answers with one more row."""
        began = time.perf_counter()
        folder = self._engine.model_folder(record)
        features = self._features_of(folder)
        asked = np.flatnonzero(answers.asked(stage.number)).astype(np.int64)
        row = np.full(len(answers.labels), NO_ANSWER, np.int32)
        row[asked] = predict(folder, self._prepared.plan.class_names, features, asked)
        changes = {"pooled_accuracy": self._pooled(stage)}
        spent = record.seconds.get("evaluation", 0.0) + time.perf_counter() - began
        seconds = {**record.seconds, "evaluation": spent}
        return record.model_copy(update={**changes, "seconds": seconds}), _with_row(answers, row)

    def _features_of(self, model_folder: Path) -> Callable[[Indices], Floats]:
        """Return what the model's head is asked about; a network in training is another each time.

        A frozen model stays the same over all stages, and its features are known.
        """
        scenario = self._prepared.scenario
        if trains_on_pictures(scenario) and scenario.method.first_stage is None:
            return ExportedFeatures(model_folder, self._prepared)
        if self._features is None:
            self._open(model_folder)
        assert self._features is not None
        return self._features.test

    def _open(self, model_folder: Path) -> None:
        """Find the features behind the frozen model that all models of the seed begin with."""
        method, prepared = self._prepared.scenario.method, self._prepared
        data = (model_folder / read_manifest(model_folder).frozen.digest).read_bytes()
        if trains_on_features(prepared.scenario):
            self._features = prepared.features.frozen(own_features(data))
            return
        width = _ANY_WIDTH
        if prepared.backbone:
            width = import_backbone(prepared.backbone, prepared.preprocessing).feature_width
        half = load_coordinator(method.name)
        assignment = half.assign(method.settings, width)
        tail = half.feature_map(assignment)
        model = FrozenModel(data, tail.kind, tail.matrix, tail.feature_bits)
        self._features = prepared.features.frozen(model)
        if prepared.scenario.evaluation.pooled_reference:
            ridge: float = getattr(assignment.settings, RIDGE)
            self._reference = PooledReference(prepared.plan, self._features, ridge)

    def _pooled(self, stage: StagePlan) -> float | None:
        if self._reference is None:
            return None
        split = self._prepared.split
        return self._reference.accuracy(stage.number, split.train.labels, split.test.labels)


def _check_records(folder: SeedFolder, records: list[StageRecord], plan: FleetPlan) -> None:
    planned = [set(plan.names(stage.classes)) for stage in plan.stages]
    fits = len(records) <= len(planned) and all(
        record.stage == number and set(record.class_names) <= planned[number - 1]
        for number, record in enumerate(records, start=1)
    )
    if not fits:
        raise RunError(
            f"{folder.root}: its finished stages are not those of the scenario; go on with the "
            "scenario that the run was begun with, or begin a new run"
        )


def _answers(folder: SeedFolder, prepared: Prepared, finished: int) -> Answers:
    """Return the answers of the finished stages.

    A row of a stage whose record was never written is dropped: the stage is asked again.
    """
    plan, labels = prepared.plan, prepared.split.test.labels
    kept = folder.answers()
    if kept is not None and kept.stages >= finished and np.array_equal(kept.labels, labels):
        return Answers(kept.labels, kept.predictions[:finished], kept.stage_of_class)
    if finished:
        raise RunError(
            f"{folder.root}: its predictions do not belong to its stages; delete the folder, and "
            "the seed is run again"
        )
    stage_of_class = np.zeros(len(plan.class_names), np.int64)
    for stage in plan.stages:
        stage_of_class[list(stage.classes)] = stage.number
    return Answers(labels, np.empty((0, len(labels)), np.int32), stage_of_class)


def _with_row(answers: Answers, row: NDArray[np.int32]) -> Answers:
    rows = np.concatenate([answers.predictions, row[np.newaxis]])
    return Answers(answers.labels, rows, answers.stage_of_class)


def _told(seed: int, record: StageRecord, answers: Answers) -> str:
    """Return the line that stays when a stage is finished."""
    truth, predicted = answers.answered(record.stage)
    accuracy = 100 * float((truth == predicted).mean())
    return (
        f"seed {seed}, stage {record.stage}: {accuracy:.2f} % on {len(record.model_classes)} "
        f"classes, {record.contributions} contributions, {record.seconds.get('total', 0):.1f} s"
    )
