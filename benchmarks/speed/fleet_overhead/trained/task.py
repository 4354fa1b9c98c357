"""The task that every framework trains: data, network, local training and the count at the end.

NumPy, torch and the standard library only, since peers import it in environments of their own.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

CLASSES, SIDE, FEATURES = 10, 8, 64
SAMPLES = 60
"""Training samples of a client."""
TESTED = 4000
EPOCHS, BATCH, RATE = 2, 20, 0.2
NOISE = 1.0
"""Deviation of the pixels around the picture of their class, whose squares deviate as much."""
SEED = int(os.environ.get("BENCH_SEED", "1"))
"""Of first weights and of batches; data are always the same."""


class Samples(NamedTuple):
    """Float32 inputs (n, 1, 8, 8), and classes (n,) of int64."""

    inputs: NDArray[np.float32]
    labels: NDArray[np.int64]


def samples(clients: int) -> tuple[Samples, Samples]:
    """Return training samples, `SAMPLES` in a row for each client, and those of the test."""
    random = np.random.default_rng(7)
    squares = random.normal(size=(CLASSES, 1, SIDE // 2, SIDE // 2))
    pictures = np.kron(squares, np.ones((2, 2)))
    return _drawn(random, pictures, clients * SAMPLES), _drawn(random, pictures, TESTED)


def _drawn(random: np.random.Generator, pictures: NDArray[np.float64], count: int) -> Samples:
    labels = random.integers(0, CLASSES, count)
    noise = random.normal(scale=NOISE, size=(count, 1, SIDE, SIDE))
    return Samples((pictures[labels] + noise).astype(np.float32), labels)


def rows(client: int) -> slice:
    """Return which training samples a client has: independent draws, so that parts are alike."""
    return slice(client * SAMPLES, (client + 1) * SAMPLES)


def body() -> nn.Sequential:
    """Return what makes features of inputs."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
    )


def network() -> nn.Sequential:
    """Return features and a linear classifier, 1,898 numbers."""
    return nn.Sequential(*body(), nn.Linear(FEATURES, CLASSES))


def train(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> None:
    """Train a client's copy, for frameworks that leave that to their users."""
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(inputs)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[batch]), labels[batch]).backward()
            optimizer.step()


@torch.no_grad()
def accuracy(model: nn.Module, test: Samples) -> float:
    """Return the share of the test samples that the model names."""
    scores = model.eval()(torch.from_numpy(test.inputs))
    return float((scores.argmax(1) == torch.from_numpy(test.labels)).double().mean())
