"""How well a network answers, while it is still being trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.segmentation.network import SegmentationNetwork
from fleetledger.methods.registry import training_coordinator
from fleetledger.methods.training.exchange import RoundParts
from fleetledger.schemas.models import of_pictures
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.backbones.adapted import frozen_part
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.engines.network_inputs import SampleInputs, inputs_of
from fleetledger.simulator.engines.scene_meter import Rows, mean_iou
from fleetledger.simulator.virtual.training import torch_device

_BATCH = 512


class PartsAccuracy(NamedTuple):
    """Shares (0 to 1) of right answers of what a round's answers held."""

    ensemble: float
    """Of all models together, whose weighted scores are added."""
    mean: float
    """Of the mean of the models."""


class Voters(NamedTuple):
    """Networks of one kind whose scores are added."""

    network: Network
    names: Sequence[ClassName]
    models: Sequence[Mapping[str, npt.NDArray[Any]]]
    weights: Sequence[int]


class NetworkMeter:
    """Measures networks on the test images of a split."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared

    @cached_property
    def _sight(self) -> SampleInputs:
        """What the network sees; only runs that train one ask for it."""
        return inputs_of(self._prepared)

    def accuracy(
        self, method: str, settings: Mapping[str, Any], weights: bytes, seen: tuple[int, ...]
    ) -> float:
        """Return the share (0 to 1) of right answers on the test images of the classes `seen`.

        Of a network that gives pixels classes it is the mIoU on some test scenes.
        """
        from fleetledger.learning.networks.conversion import to_tensors  # noqa: PLC0415 - needs torch

        prepared = self._prepared
        side = training_coordinator(method)
        network, arrays, names = side.network_of(side.read_assignment(settings), weights)
        device = torch_device(prepared.scenario.engine.device)
        if isinstance(network, SegmentationNetwork):
            test, spec = prepared.split.test, of_pictures(prepared.preprocessing)
            assert isinstance(test, TaskScenes)
            rows = Rows(network, *to_tensors(arrays, device), names)
            return mean_iou(rows, test.scenes, spec, seen, device)
        return self._share(Voters(network, names, (arrays,), (1,)), seen)

    def parts_accuracy(
        self, network: Network, names: Sequence[ClassName], parts: RoundParts
    ) -> PartsAccuracy:
        """Return how a round's models answer together, and their mean alone, on `names`.

        `names` are the rows of the network's head.
        """
        seen = tuple(self._prepared.plan.class_names.index(name) for name in names)
        return PartsAccuracy(
            self._share(Voters(network, names, parts.models, parts.weights), seen),
            self._share(Voters(network, names, (parts.mean,), (1,)), seen),
        )

    def _share(self, voters: Voters, seen: tuple[int, ...]) -> float:
        """Return the share of right answers by the sum of the models' weighted scores."""
        import torch  # noqa: PLC0415 - heavy, and optional

        from fleetledger.learning.networks.conversion import brought_home, to_tensors  # noqa: PLC0415
        from fleetledger.learning.networks.inference import Inference  # noqa: PLC0415 - needs torch

        prepared = self._prepared
        device = torch_device(prepared.scenario.engine.device)
        base = frozen_part(prepared.scenario.backbone, voters.network)
        labels = prepared.split.test.labels
        asked = np.flatnonzero(np.isin(labels, seen)).astype(np.int64)
        infer = Inference(_BATCH, self._sight.pictures())
        models = [to_tensors({**base, **arrays}, device) for arrays in voters.models]
        right = 0
        label_of_row = np.array([prepared.plan.class_names.index(name) for name in voters.names])
        for start in range(0, len(asked), _BATCH):
            chunk = asked[start : start + _BATCH]
            inputs = torch.from_numpy(self._sight.test(chunk)).to(device)
            scores = [infer(voters.network, *model, inputs).logits for model in models]
            weighted = zip(scores, voters.weights, strict=True)
            logits = torch.stack([score * weight for score, weight in weighted]).sum(dim=0)
            rows = brought_home(logits.argmax(dim=1)).numpy()
            right += int((label_of_row[rows] == labels[chunk]).sum())
        return right / len(asked)
