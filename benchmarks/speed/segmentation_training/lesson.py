"""The work that a plan describes: FBL in a later task of VOC 15-5, or any method's first task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from benchmarks.speed.segmentation_training.plans import NEW_CLASSES, OLD_CLASSES, Plan
from fleetledger.learning.losses.segmentation import presets
from fleetledger.learning.losses.segmentation.composition import DenseLoss
from fleetledger.learning.losses.segmentation.thresholds import accepted_share, adaptive_thresholds
from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.inference import Inference
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.segmentation.head import grow_from_background
from fleetledger.learning.networks.segmentation.registry import build_segmentation
from fleetledger.learning.networks.segmentation.torch_layers import DensePass
from fleetledger.learning.networks.torch_layers import Mode, Tensors
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.scenes import SceneCrops
from fleetledger.learning.training.work import Batching, Data, Extras, Sgd, Work

PICTURES = Pictures((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def build_work(plan: Plan) -> Work:
    """Return one step of training, in a later task with the full pass before its epoch."""
    shape = (3, plan.side, plan.side)
    network = build_segmentation(plan.network, shape, "all" if plan.norms_frozen else "none")
    dense, later = DensePass(network), plan.task > 1
    old = network.initial(0, [f"class {number}" for number in range(OLD_CLASSES)])
    parameters, buffers = to_tensors(grow_from_background(old, NEW_CLASSES))
    window = None if plan.window is None else (plan.window, plan.window)
    return Work(
        parameters,
        buffers,
        scenes(plan),
        loss=DenseLoss(dense, presets.fbl() if later else presets.finetuning()),
        optimiser=Sgd((0.001,), momentum=0.9, weight_decay=1e-4),
        batching=Batching(plan.batch, parts=plan.parts),
        chance=Chance(2023, "device"),
        frozen=frozen(old) if later else {},
        pictures=PICTURES,
        scenes=SceneCrops(window, 0.5, 2.0, flip=True),
        norms_frozen=plan.norms_frozen,
        prepare=Thresholds(dense) if later else None,
    )


class Thresholds:
    """FBL's Algorithm 1: one full pass of both models before an epoch."""

    def __init__(self, network: DensePass) -> None:
        self._network = network

    def __call__(
        self, work: Work, parameters: Tensors, buffers: Tensors, epoch: int, infer: Inference
    ) -> Extras:
        """Return the thresholds of the old classes."""
        before = work.frozen["old"]["parameters"], work.frozen["old"]["buffers"]

        def both(batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            now, _ = self._network(parameters, buffers, batch, Mode())
            old, _ = self._network(*before, batch, Mode())
            return now.logits.float(), old.logits.float()

        masks = work.data.targets.split(infer.batch_size)
        logits = infer.over(both, work.data.inputs)
        batches = ((*pair, mask.long()) for pair, mask in zip(logits, masks, strict=True))
        return Extras({"thresholds": adaptive_thresholds(batches, accepted_share(epoch))})


def frozen(old: Mapping[str, Any]) -> dict[str, Any]:
    """Return what FBL's terms look at: the old model, and the task of each channel."""
    parameters, buffers = to_tensors(old)
    return {
        "old": {"parameters": parameters, "buffers": buffers},
        "tasks": torch.tensor([0] + [1] * OLD_CLASSES + [2] * NEW_CLASSES),
        "exponent": torch.tensor(OLD_CLASSES / (OLD_CLASSES + NEW_CLASSES)),
    }


def scenes(plan: Plan) -> Data:
    """Return a batch of noise with a stripe of each new class."""
    random = np.random.default_rng(0)
    pictures = random.integers(0, 256, (plan.batch, 3, plan.side, plan.side), np.uint8)
    masks = np.zeros((plan.batch, plan.side, plan.side), np.uint8)
    width = plan.side // (2 * NEW_CLASSES)
    for row in range(NEW_CLASSES):
        masks[:, 2 * row * width : (2 * row + 1) * width] = OLD_CLASSES + 1 + row
    return Data(torch.from_numpy(pictures), torch.from_numpy(masks))
