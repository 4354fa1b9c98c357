"""What LGA's training is held against: a plain loop over torch modules, with nothing around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

SHAPES: dict[str, tuple[Sequence[int], Sequence[int]]] = {
    "resnet8": ((16, 32, 64), (1, 1, 1)),
    "resnet18": ((64, 128, 256, 512), (2, 2, 2, 2)),
}
"""Channels of the groups, and blocks in each."""


class Block(nn.Module):
    """A basic block."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outputs) for _ in range(2)])
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(outputs))

    def forward(self, values: Tensor) -> Tensor:
        """Return the block's maps."""
        inner = functional.relu(self.norms[0](self.first(values)))
        inner = self.norms[1](self.second(inner))
        return functional.relu(inner + self.shortcut(values))


class BareResNet(nn.Module):
    """The network of that name for RGB pictures, as `learning.networks.resnet` describes it."""

    def __init__(self, name: str, classes: int) -> None:
        super().__init__()
        widths, blocks = SHAPES[name]
        layers: list[nn.Module] = [
            nn.Conv2d(3, widths[0], 3, 1, 1, bias=False),
            nn.BatchNorm2d(widths[0]),
            nn.ReLU(),
        ]
        inputs = widths[0]
        for group, (outputs, count) in enumerate(zip(widths, blocks, strict=True)):
            for place in range(count):
                layers.append(Block(inputs, outputs, 2 if group and not place else 1))
                inputs = outputs
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(inputs, classes)

    def forward(self, values: Tensor) -> Tensor:
        """Return the scores (n, C)."""
        scores: Tensor = self.head(self.body(values).mean(dim=(-2, -1)))
        return scores


Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From inputs, logits and labels."""


def labelled(_inputs: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropy of a first task."""
    return functional.cross_entropy(logits, labels)


def distilled(teacher: nn.Module) -> Loss:
    """Return a later task's loss: cross-entropy, and divergence from the teacher's old classes."""

    def loss(inputs: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
        with torch.no_grad():
            old = teacher(inputs).softmax(dim=-1)
        known = logits.log_softmax(dim=-1)[:, : old.shape[-1]]
        return functional.cross_entropy(logits, labels) + functional.kl_div(
            known, old, reduction="batchmean"
        )

    return loss


@dataclass(frozen=True)
class Settings:
    """How long and in which steps is trained, and whether in bfloat16."""

    epochs: int
    batch: int
    bfloat16: bool


def train(
    network: nn.Module, pictures: Tensor, labels: Tensor, loss: Loss, settings: Settings
) -> None:
    """Train `network` on uint8 pictures (N, 3, s, s)."""
    kind = pictures.device.type
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01, weight_decay=1e-5)
    network.train()
    for _ in range(settings.epochs):
        order = torch.randperm(len(pictures), device=pictures.device)
        for rows in order.split(settings.batch):
            inputs = (pictures[rows].float() / 255 - 0.5) / 0.25
            with torch.autocast(kind, torch.bfloat16, enabled=settings.bfloat16):
                value = loss(inputs, network(inputs), labels[rows])
            optimiser.zero_grad()
            value.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
