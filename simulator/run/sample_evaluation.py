"""Asks the exported model of each stage about the test samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fleetledger.export.backbone import import_backbone
from fleetledger.methods.registry import statistics_coordinator
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.datasets.samples import domains_of
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.features.interface import (
    Floats,
    FrozenFeatures,
    FrozenModel,
    Indices,
    own_features,
)
from fleetledger.simulator.metrics.answers import NO_ANSWER, Answers
from fleetledger.simulator.plan.fleet_plan import FleetPlan, StagePlan
from fleetledger.simulator.plan.own_tests import deal_tests, so_far
from fleetledger.simulator.plan.partitions import PARTITIONS
from fleetledger.simulator.run.evaluation import ExportedFeatures, predict, read_manifest
from fleetledger.simulator.run.folder import Kept
from fleetledger.simulator.run.stage_evaluation import Changes, StageEvaluation
from fleetledger.simulator.scenario.trainer import trains_on_features, trains_on_pictures

Doubles = NDArray[np.float64]
RidgeRule = Callable[[Doubles, Doubles, Indices], float]
"""The ridge for G (M x M), P (M x C) and the samples of each class (C,)."""
_AT_ONCE = 1024
"""Samples whose features are in memory at a time."""

RIDGE = "ridge_value"
"""What the settings of methods that solve a ridge regression have."""
_ANY_WIDTH = 1
"""Of a network that the fleet trained: its features are those of the whole frozen model."""


class SampleEvaluation(StageEvaluation):
    """Asks about the test samples of all classes seen by the stage."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._features: FrozenFeatures | None = None
        self._reference: PooledReference | None = None
        self._own: list[dict[DeviceId, Indices]] | None = None

    def nothing(self) -> Kept:
        """Return the answers of no stage."""
        labels = self._prepared.split.test.labels
        none = np.empty((0, len(labels)), np.int32)
        plan, domains = self._prepared.plan, domains_of(self._prepared.split.test)
        first = plan.stages_of_samples(labels, domains) if plan.domain_stages else labels[:0]
        return Kept(Answers(labels, none, plan.stages_of_classes(), first))

    def fits(self, kept: Kept) -> bool:
        """Return whether answers are about these test samples."""
        labels, answers = self._prepared.split.test.labels, kept.answers
        return isinstance(answers, Answers) and np.array_equal(answers.labels, labels)

    def ask(self, stage: StagePlan, model_folder: Path, kept: Kept) -> tuple[Changes, Kept]:
        """Return what is measured beside the answers, and these with one more row.

        A model is asked about all samples of classes that it knows, in domains to come, too.
        """
        answers = kept.answers
        assert isinstance(answers, Answers)
        features = self._features_of(model_folder)
        known = np.isin(answers.labels, answers.seen(stage.number))
        asked = np.flatnonzero(known).astype(np.int64)
        row = np.full(len(answers.labels), NO_ANSWER, np.int32)
        row[asked] = predict(model_folder, self._prepared.plan.class_names, features, asked)
        rows = np.concatenate([answers.predictions, row[np.newaxis]])
        right = row == answers.labels
        measured = {
            "pooled_accuracy": self._pooled(stage),
            "domain_accuracy": self._by_domain(right, known),
            "own_answers": self._by_device(stage, right, known),
        }
        return measured, Kept(replace(answers, predictions=rows))

    def _by_domain(self, right: NDArray[np.bool_], known: NDArray[np.bool_]) -> dict[str, float]:
        """Return the share of right answers in each domain of which something is known."""
        domains = domains_of(self._prepared.split.test)
        if domains is None:
            return {}
        of = {
            name: known & (domains.of_sample == place) for place, name in enumerate(domains.names)
        }
        return {name: float(right[here].mean()) for name, here in of.items() if here.any()}

    def _by_device(
        self, stage: StagePlan, right: NDArray[np.bool_], known: NDArray[np.bool_]
    ) -> dict[DeviceId, tuple[int, int]]:
        """Return right answers and questions of the test part of each device that is there."""
        if self._prepared.scenario.devices.test != "own":
            return {}
        if self._own is None:
            rule = self._prepared.scenario.devices.partition.rule
            by_owner = PARTITIONS[rule].deal is None
            self._own = deal_tests(self._prepared.plan, self._prepared.split, by_owner)
        found = {}
        for device, indices in so_far(self._own, stage.number).items():
            asked = indices[known[indices]]
            if len(asked) and device in stage.devices:
                found[device] = (int(right[asked].sum()), len(asked))
        return found

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
        side = statistics_coordinator(method.name)
        assignment = side.assign(method.settings, width)
        tail = side.feature_map(assignment)
        model = FrozenModel(data, tail.kind, tail.matrix, tail.feature_bits)
        self._features = prepared.features.frozen(model)
        if prepared.scenario.evaluation.pooled_reference:
            rule = _ridge_rule(assignment.settings)
            self._reference = PooledReference(prepared.plan, self._features, rule)

    def _pooled(self, stage: StagePlan) -> float | None:
        if self._reference is None:
            return None
        split = self._prepared.split
        return self._reference.accuracy(stage.number, split.train.labels, split.test.labels)


def _ridge_rule(settings: object) -> RidgeRule:
    """Return how a method finds its ridge: as its settings choose it, or the one that they hold."""
    chosen: RidgeRule | None = getattr(settings, "ridge_for", None)
    return chosen or (lambda *_sums: float(getattr(settings, RIDGE)))


class PooledReference:
    """Sums over all images that were dealt so far, each as often as it was dealt."""

    def __init__(self, plan: FleetPlan, features: FrozenFeatures, ridge: RidgeRule) -> None:
        self._plan = plan
        self._features = features
        self._ridge = ridge
        self._counts = np.zeros(len(plan.class_names), np.int64)
        self._summed = 0
        """Stages in the sums."""
        self._gram: Doubles | None = None
        self._correlation: Doubles | None = None

    def accuracy(self, stage: int, train: Indices, test: Indices) -> float:
        """Return the accuracy (0 to 1) on the test samples of all classes seen by `stage`.

        `train` and `test` are the labels of the data set's two parts. Stages are asked in order.
        """
        for item in self._plan.stages[self._summed : stage]:
            self._add(item, train)
        self._summed = stage
        seen = np.array(self._plan.seen(stage))
        weights = self._solve(seen)
        asked = np.flatnonzero(np.isin(test, seen)).astype(np.int64)
        right = 0
        for chunk in _chunks(asked):
            scores = self._features.test(chunk).astype(np.float64) @ weights
            right += int((seen[scores.argmax(axis=1)] == test[chunk]).sum())
        return right / len(asked)

    def _add(self, stage: StagePlan, labels: Indices) -> None:
        dealt = [device.indices for device in stage.devices.values()]
        indices, times = np.unique(np.concatenate(dealt), return_counts=True)
        classes = len(self._plan.class_names)
        for chunk, often in zip(_chunks(indices), _chunks(times), strict=True):
            h = self._features.train(chunk).astype(np.float64)
            np.add.at(self._counts, labels[chunk], often)
            if self._gram is None or self._correlation is None:
                self._gram = np.zeros((h.shape[1], h.shape[1]))
                self._correlation = np.zeros((h.shape[1], classes))
            weighted = h * often[:, np.newaxis]
            self._gram += weighted.T @ h
            self._correlation += weighted.T @ np.eye(classes)[labels[chunk]]

    def _solve(self, seen: Indices) -> Doubles:
        """Return W (M, C), a column for each class of `seen`; equation (7)."""
        assert self._gram is not None
        assert self._correlation is not None
        correlation = self._correlation[:, seen]
        ridge = self._ridge(self._gram, correlation, self._counts[seen])
        regularised = self._gram + ridge * np.eye(len(self._gram))
        solved: Doubles = np.linalg.solve(regularised, correlation).astype(np.float64)
        return solved


def _chunks(values: Indices) -> list[Indices]:
    return [values[first : first + _AT_ONCE] for first in range(0, len(values), _AT_ONCE)]
