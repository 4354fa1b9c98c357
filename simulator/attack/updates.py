"""Gradient inversion: from what one step of training changed in a network to its pictures.

A device of FedAvg that takes one step from the fleet's weights sends, divided by the rate, the
gradient of its loss. Pictures are sought that have the same (Zhu et al., NeurIPS 2019); their
labels are known, since a contribution counts samples by class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.registry import build_network
from fleetledger.learning.networks.torch_layers import Mode, forward
from fleetledger.simulator.attack.search import SearchSettings, searched
from fleetledger.simulator.attack.subject import Subject

_CLASSES = tuple(f"class {number}" for number in range(10))


@dataclass(frozen=True, eq=False)
class OneStepLearner:
    """A network that a device takes one step with, on pictures or on frozen features."""

    subject: Subject
    network: Network
    parameters: dict[str, Tensor]
    buffers: dict[str, Tensor]
    of_features: bool

    @classmethod
    def of(cls, subject: Subject, features_network: str) -> OneStepLearner:
        """Return the named network on frozen features; without a name that of the pictures."""
        seed = subject.settings.seed
        if features_network:
            shape: tuple[int, ...] = (subject.all_features.shape[1],)
            network = build_network(features_network, shape)
        else:
            network = subject.network or build_network("mlp", subject.shape)
        parameters, buffers = to_tensors(network.initial(seed, _CLASSES))
        if not features_network and subject.network is not None:
            for own, given in zip((parameters, buffers), subject.tensors, strict=True):
                own.update({n: t for n, t in given.items() if not n.startswith("head.")})
        for tensor in parameters.values():
            tensor.requires_grad_()
        return cls(subject, network, parameters, buffers, bool(features_network))

    def gradient(self, pictures: Tensor, *, keep: bool) -> list[Tensor]:
        """Return the gradient of the mean loss, all of the first class; `keep` to go through it."""
        told = self.subject.settings
        inputs = (pictures - told.mean) / told.deviation
        if self.of_features:
            inputs = self.subject.features(pictures)
        scores = forward(self.network, self.parameters, self.buffers, inputs, Mode()).scores
        loss = functional.cross_entropy(scores, torch.zeros(len(pictures), dtype=torch.long))
        every = list(self.parameters.values())
        found = torch.autograd.grad(loss, every, create_graph=keep, allow_unused=True)
        return [one for one in found if one is not None]


def inverted(learner: OneStepLearner, pictures: Tensor, settings: SearchSettings) -> Tensor:
    """Return pictures with the gradient of `pictures` (n, c, s, s), as many."""
    sent = [one.detach() for one in learner.gradient(pictures, keep=False)]
    return searched(_distance(learner, sent), tuple(pictures.shape), settings)


def _distance(learner: OneStepLearner, sent: list[Tensor]) -> Callable[[Tensor], Tensor]:
    whole = torch.stack([one.square().sum() for one in sent]).sum()

    def distance(pictures: Tensor) -> Tensor:
        made = learner.gradient(pictures, keep=True)
        far = torch.stack([(a - b).square().sum() for a, b in zip(made, sent, strict=True)])
        return far.sum() / whole

    return distance
