"""How well a network answers, while it is still being trained."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from learning.networks.segmentation.network import SegmentationNetwork
from methods.registry import training_coordinator
from schemas.models import of_pictures
from simulator.datasets.segmentation.tasks import TaskScenes
from simulator.engines.interface import Prepared
from simulator.engines.network_inputs import SampleInputs, inputs_of
from simulator.engines.scene_meter import Rows, SceneMeter
from simulator.virtual.training import torch_device

_BATCH = 512


class NetworkMeter:
    """Measures networks on the test images of a split."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared

    @cached_property
    def _sight(self) -> SampleInputs:
        """What the network sees; only runs that train one ask for it."""
        return inputs_of(self._prepared)

    @cached_property
    def _scenes(self) -> SceneMeter | None:
        """What measures scenes; None of samples that have one class each."""
        test = self._prepared.split.test
        if not isinstance(test, TaskScenes):
            return None
        return SceneMeter(test.scenes, of_pictures(self._prepared.preprocessing))

    def accuracy(
        self, method: str, settings: Mapping[str, Any], weights: bytes, seen: tuple[int, ...]
    ) -> float:
        """Return the share (0 to 1) of right answers on the test images of the classes `seen`.

        Of a network that gives pixels classes it is the mIoU on some test scenes; see `SceneMeter`.
        """
        import torch  # noqa: PLC0415 - heavy, and optional

        from learning.networks.conversion import brought_home, to_tensors  # noqa: PLC0415
        from learning.networks.inference import Inference  # noqa: PLC0415 - needs torch

        prepared = self._prepared
        side = training_coordinator(method)
        network, arrays, names = side.network_of(side.read_assignment(settings), weights)
        device = torch_device(prepared.scenario.engine.device)
        if isinstance(network, SegmentationNetwork):
            assert self._scenes is not None
            rows = Rows(network, *to_tensors(arrays, device), names)
            return self._scenes.mean_iou(rows, seen, device)
        labels = prepared.split.test.labels
        asked = np.flatnonzero(np.isin(labels, seen)).astype(np.int64)
        infer = Inference(_BATCH, self._sight.pictures())
        parameters, buffers = to_tensors(arrays, device)
        right = 0
        label_of_row = np.array([prepared.plan.class_names.index(name) for name in names])
        for start in range(0, len(asked), _BATCH):
            chunk = asked[start : start + _BATCH]
            inputs = torch.from_numpy(self._sight.test(chunk)).to(device)
            logits = infer(network, parameters, buffers, inputs).logits
            rows = brought_home(logits.argmax(dim=1)).numpy()
            right += int((label_of_row[rows] == labels[chunk]).sum())
        return right / len(asked)
