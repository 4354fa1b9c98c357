"""The small network learns scenes of digits in seconds."""

import numpy as np
import pytest
import torch

from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.segmentation.registry import build_segmentation
from fleetledger.learning.networks.segmentation.torch_layers import DensePass
from fleetledger.learning.networks.torch_layers import Mode
from fleetledger.simulator.datasets.segmentation.digit_scenes import (
    SceneSettings,
    split_digit_scenes,
)

pytestmark = pytest.mark.torch

EPOCHS, BATCH = 25, 4


def test_it_tells_most_pixels_of_the_digits_it_was_shown():
    scenes = split_digit_scenes(SceneSettings(train=40, test=1), 0).train
    network = build_segmentation("small_dense", (3, 48, 48))
    parameters, buffers = to_tensors(network.initial(0, scenes.class_names))
    leaves = {name: value.requires_grad_() for name, value in parameters.items()}
    pictures = (torch.from_numpy(scenes.images).float() / 255 - 0.5) / 0.25
    pictures = pictures.permute(0, 3, 1, 2)
    masks = torch.from_numpy(scenes.masks).long()
    optimiser = torch.optim.SGD(leaves.values(), 0.05, momentum=0.9, nesterov=True)
    for epoch in range(EPOCHS):
        order = torch.from_numpy(np.random.default_rng(epoch).permutation(len(masks)))
        for rows in order.split(BATCH):
            outputs, buffers = DensePass(network)(leaves, buffers, pictures[rows], Mode(True))
            loss = torch.nn.functional.cross_entropy(outputs.logits, masks[rows], ignore_index=255)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    with torch.no_grad():
        outputs, _ = DensePass(network)(leaves, buffers, pictures, Mode())
    found = outputs.logits.argmax(dim=1)
    digits = (masks > 0) & (masks < 255)
    assert float((found == masks)[digits].double().mean()) > 0.8
    assert float((found == masks)[masks == 0].double().mean()) > 0.95
