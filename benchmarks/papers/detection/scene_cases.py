"""Networks of a finished run of FBL, and the test scenes that are quiet or new to each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers.detection.scene_models import SceneValues, TaskModel, models_of_run
from benchmarks.papers.detection.sequences import Images
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.virtual.scenes import SizedScenes

FEWEST = 12
"""Scenes of either kind without which a network is left out."""


@dataclass(frozen=True)
class Plan:
    """How scenes are drawn."""

    draws: int = 200
    changed: int = 60
    """Scenes after a change, or as many as there are."""
    most: float = 0.0
    """The largest share of a quiet scene's labelled pixels that the network knows no class for."""
    least: float = 0.01
    """The smallest share of a new scene's labelled pixels that are of the task's classes."""
    quiet_looks: float = 100.0
    """For FBL's sequential rule: looks to a false alarm."""


@dataclass(frozen=True)
class Case:
    """A network before a task, with the scenes that it is shown."""

    seed: int
    added: tuple[str, ...]
    quiet: Images
    new: Images
    values: SceneValues
    grown: SceneValues
    """The same network when the task's classes are registered and nothing is learned."""

    @property
    def knows_all(self) -> bool:
        """Whether it is the network of the last round, to which every scene is quiet."""
        return not self.added


def cases_of(folder: Path, plan: Plan) -> Iterator[Case]:
    """Yield the networks of a run that have enough scenes, with the values of all of these."""
    results = RunResults.read(folder)
    for seed in results.seeds:
        test = PreparedSeed.load(results.scenario, seed).split.test
        assert isinstance(test, TaskScenes), "a run on scenes"
        scenes, places = np.unique(test.scene_of, return_index=True)
        for model in models_of_run(folder / f"seed-{seed}" / "coordinator"):
            quiet, new = pools(test.scenes.labels[scenes], test.class_names, model, plan)
            if model.added and min(len(quiet), len(new)) < FEWEST:
                continue
            pictures = SizedScenes(test, model.preprocessing)(places)
            yield Case(
                seed,
                tuple(model.added),
                quiet,
                new,
                model.values(pictures, model.names),
                model.grown().values(pictures, model.names),
            )


def pools(
    pixels: Any,  # noqa: ANN401 - an array (n, C) of counts
    class_names: Sequence[str],
    model: TaskModel,
    plan: Plan,
) -> tuple[Images, Images]:
    """Return which scenes are quiet and which are new to a network, in the data set's order.

    One with classes of tasks after the next is neither, unless `most` allows so much of them.
    """
    columns = {name: column for column, name in enumerate(class_names)}
    known = [columns[name] for name in model.names]
    added = [columns[name] for name in model.added]
    shares = pixels / np.maximum(pixels.sum(axis=1, keepdims=True), 1)
    strange = 1 - shares[:, known].sum(axis=1)
    later = strange - shares[:, added].sum(axis=1)
    if not added:
        return np.arange(len(pixels)), np.arange(0)
    small = plan.most + 1e-9
    quiet = np.flatnonzero((strange <= small) & (shares[:, known].sum(axis=1) > 0))
    new = np.flatnonzero((shares[:, added].sum(axis=1) >= plan.least) & (later <= small))
    return quiet, new
