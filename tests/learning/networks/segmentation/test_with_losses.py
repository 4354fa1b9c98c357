"""Losses over pixels train a network as it is, beside an old model whose head is smaller."""

import numpy as np
import pytest
import torch

from fleetledger.learning.losses.segmentation import presets
from fleetledger.learning.losses.segmentation.composition import DenseLoss
from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.segmentation.head import grow_from_background
from fleetledger.learning.networks.segmentation.registry import build_segmentation
from fleetledger.learning.networks.segmentation.torch_layers import DensePass
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Batching, Data, Extras, Sgd, Work
from tests.learning.networks.segmentation.reference import SMALL_DEEPLAB, used

pytestmark = pytest.mark.torch

OLD_ROWS, NEW_CLASSES = 4, 2
SMALL = build_segmentation("small_dense", (3, 24, 24))


def scenes(number):
    """Return pictures whose red is bright where class 4 is."""
    random = np.random.default_rng(0)
    masks = np.zeros((number, 24, 24), np.uint8)
    masks[:, 6:18, 4:16] = 4
    inputs = random.normal(size=(number, 3, 24, 24)).astype(np.float32)
    inputs[:, 0] += 3 * (masks == 4)
    return Data(torch.from_numpy(inputs), torch.from_numpy(masks))


@pytest.mark.parametrize("network", [SMALL, SMALL_DEEPLAB], ids=["small", "deeplab"])
@pytest.mark.parametrize("terms", [presets.fbl(), presets.ilt()], ids=["fbl", "ilt"])
def test_a_later_task_brings_the_loss_down(network, terms):
    old = used(network)
    frozen = {
        "old": dict(zip(("parameters", "buffers"), to_tensors(old), strict=True)),
        "tasks": torch.tensor([0, 1, 1, 1, 2, 2]),
        "exponent": torch.tensor(0.6),
    }
    loss = DenseLoss(DensePass(network), terms)
    parameters, buffers = to_tensors(grow_from_background(old, NEW_CLASSES))
    work = Work(
        parameters,
        buffers,
        scenes(8),
        loss=loss,
        optimiser=Sgd((0.005,) * 4, momentum=0.9),
        batching=Batching(4),
        chance=Chance(3, "site", stage=2, round=1),
        frozen=frozen,
        prepare=lambda *_: thresholds(),
    )
    trained = train_alone(work, TrainingEngineSettings(engine="loop"))
    assert loss == DenseLoss(DensePass(network), terms)
    assert trained.losses[-1] < trained.losses[0]
    assert len(trained.parameters["head.bias"]) == OLD_ROWS + NEW_CLASSES
    assert any(not torch.equal(trained.buffers[name], buffers[name]) for name in buffers)


def thresholds():

    return Extras(agent={"thresholds": torch.full((OLD_ROWS,), 0.5)})
