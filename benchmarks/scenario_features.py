"""What a scenario's frozen network makes of its samples, for studies that need no fleet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleetledger.export.backbone import import_backbone
from fleetledger.export.frozen import build_frozen
from fleetledger.simulator.features.interface import FrozenModel
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.scenario.loading import load_scenario
from fleetledger.simulator.scenario.model import Scenario


@dataclass(frozen=True, eq=False)
class ScenarioFeatures:
    """Integer features h of all samples, without a random map."""

    scenario: Scenario
    train: npt.NDArray[np.float32]
    """(n, M)."""
    train_labels: npt.NDArray[np.int64]
    test: npt.NDArray[np.float32]
    test_labels: npt.NDArray[np.int64]
    owners: npt.NDArray[np.int64]
    """(n,): which device gets a training sample, from 0 on; -1 for nobody."""

    @classmethod
    def of(cls, name: str, seed: int = 1) -> ScenarioFeatures:
        """Return those of a scenario; features that are in no cache yet are computed."""
        scenario = load_scenario(name)
        loaded = PreparedSeed.load(scenario, seed)
        prepared = loaded.prepare(_Silent())
        backbone = import_backbone(prepared.backbone, prepared.preprocessing).model
        frozen = FrozenModel(build_frozen(backbone, "none"), "none", None, 7)
        source, split = prepared.features.frozen(frozen), prepared.split
        numbers = {
            device: number for number, device in enumerate(sorted(loaded.plan.stages[0].devices))
        }
        owners = np.full(len(split.train.labels), -1, np.int64)
        for stage in loaded.plan.stages:
            for device, met in stage.devices.items():
                owners[met.indices] = numbers[device]
        return cls(
            scenario,
            source.train(np.arange(len(split.train.labels))),
            split.train.labels,
            source.test(np.arange(len(split.test.labels))),
            split.test.labels,
            owners,
        )


class _Silent:
    """A `Watch` that says nothing."""

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_: None
