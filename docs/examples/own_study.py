"""A study of one's own: python own_study.py FOLDER ['{"kind": "mqtt"}'], for the same sums."""

import json
import sys

import numpy as np
import torch
from torch import nn

import fleetledger as fl


@fl.network("small_cnn")
def small_cnn(shape, width=16):
    """A CNN with group normalisation, which fleetledger has not."""
    first = nn.Sequential(nn.Conv2d(shape[0], width, 3), nn.GroupNorm(4, width), nn.SiLU())
    return nn.Sequential(first, nn.Conv2d(width, width, 3), nn.AdaptiveAvgPool2d(2), nn.Flatten())


@fl.partition("in_turn")
def in_turn(labels, devices, random):
    """Deal samples in turn, after a shuffle."""
    order = random.permutation(len(labels))
    return [order[first::devices] for first in range(devices)]


@fl.method("fedreg")
class FedReg(fl.methods.Rounds):
    """Federated averaging with features that do not vary together, and far exemplars."""

    class Settings(fl.methods.Rounds.Settings):
        decorrelation: float = 0.01

    def loss(self, step):
        together = torch.cov(step.features.T)
        apart = together - torch.diag(torch.diagonal(together))
        return super().loss(step) + self.settings.decorrelation * (apart**2).mean()

    def exemplars(self, features, count):
        return np.argsort(-np.linalg.norm(features - features.mean(0), axis=1))[:count]


@fl.metric("worst_class")
def worst_class(answers, plan):
    """Accuracy of the class that the last model knows least."""
    said, labels = answers.predictions[-1], answers.labels
    seen = np.unique(labels[said >= 0])
    return min((said == labels)[labels == label].mean() for label in seen)


if __name__ == "__main__":
    method = FedReg(network="small_cnn", exemplars=20, epochs=2, batch=16, decorrelation=0.02)
    scenario = {
        "data": {"set": "digits", "per_class": 40}, "stages": {"classes": 4, "count": 2},
        "devices": {"count": 3, "partition": {"rule": "in_turn"}}, "rounds": {"per_stage": 2},
        "method": method, "seeds": [1], "engine": json.loads((sys.argv[2:] or ["{}"])[0]),
    }  # fmt: skip
    run = fl.simulate(scenario, output=sys.argv[1])
    print(run.matrix(seed=1), run.forgetting, run.summary("worst_class"), sep="\n")
