"""Full passes against sums written out."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fleetledger.learning.losses.composition import ComposedLoss, Weighted
from fleetledger.learning.losses.terms import CrossEntropy
from fleetledger.learning.training.measures import class_means, fisher_diagonal
from fleetledger.learning.training.settings import TrainingEngineSettings
from tests.learning.training.agents import (
    NETWORK,
    ReferenceMlp,
    make_works,
)

pytestmark = pytest.mark.torch

IN_USE = ComposedLoss(NETWORK, (Weighted(1.0, CrossEntropy()),), training="none")


def test_importance_is_the_mean_squared_gradient_of_batches():
    (work,) = make_works((21,), loss=IN_USE)
    module = ReferenceMlp().double()
    module.load_state_dict({**work.parameters, **work.buffers}, strict=False)
    module.eval()
    order = torch.from_numpy(work.chance.shuffled(0, 21))
    wanted = {name: torch.zeros_like(value) for name, value in work.parameters.items()}
    for rows in order.split(8):
        module.zero_grad()
        scores = module(work.data.inputs[rows], (1, 1))
        torch.nn.functional.cross_entropy(scores, work.data.targets[rows]).backward()
        for name, value in module.named_parameters():
            wanted[name] += value.grad**2 / 3
    found = fisher_diagonal(work, TrainingEngineSettings(), cap=1e9)
    for name, value in wanted.items():
        assert torch.allclose(found[name], value, atol=1e-15), name


def test_importance_is_capped():
    (work,) = make_works((21,), loss=IN_USE)
    found = fisher_diagonal(work, TrainingEngineSettings())
    assert max(float(value.max()) for value in found.values()) == 1e-4


def test_without_a_batch_nothing_matters():
    (work,) = make_works((21,), loss=IN_USE)
    empty = replace(work, data=make_works((0,))[0].data)
    assert not any(
        value.any() for value in fisher_diagonal(empty, TrainingEngineSettings()).values()
    )


def test_class_means_are_means_of_the_classes_samples():
    features = torch.from_numpy(np.random.default_rng(0).normal(size=(9, 3)))
    targets = torch.tensor([0, 2, 2, 0, 3, 3, 3, 2, 0])
    means, counts = class_means(features, targets, 5)
    assert counts.tolist() == [3, 0, 3, 3, 0]
    for label in (0, 2, 3):
        assert torch.allclose(means[label], features[targets == label].mean(dim=0))
    assert not means[[1, 4]].any()
