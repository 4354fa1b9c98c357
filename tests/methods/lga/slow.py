"""LGA's local round as the page writes it: torch modules, torch's optimiser, sample by sample.

Slow and obvious; the only thing that it shares with the package is the order of the samples of an
epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import log

import numpy as np
import torch
from torch import Tensor, nn


class Net(nn.Module):
    """The package's multilayer perceptron with its head."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        hidden, inputs = arrays["linear0.weight"].shape
        width, classes = len(arrays["linear1.bias"]), len(arrays["head.bias"])
        self.linear0, self.norm0 = nn.Linear(inputs, hidden), nn.BatchNorm1d(hidden)
        self.linear1, self.norm1 = nn.Linear(hidden, width), nn.BatchNorm1d(width)
        self.head = nn.Linear(width, classes)
        values = {name: torch.tensor(array) for name, array in arrays.items()}
        self.load_state_dict(values, strict=False)

    def features(self, inputs: Tensor) -> Tensor:
        first = torch.relu(self.norm0(self.linear0(inputs.flatten(1))))
        return torch.relu(self.norm1(self.linear1(first)))

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.head(self.features(inputs))
        return scores

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            name: value.detach().numpy()
            for name, value in self.state_dict().items()
            if not name.endswith("num_batches_tracked")
        }


@dataclass
class Round:
    """One device in one round; `tasks` has the task of every class, from 0."""

    inputs: Tensor
    labels: list[int]
    tasks: list[int]
    stored: set[int]
    """Classes that the device has exemplars of."""
    batch: int
    rates: tuple[float, ...]
    order: Callable[[int], np.ndarray]
    weight_decay: float = 1e-5
    old: Mapping[str, np.ndarray] | None = None
    gammas: tuple[float, float] = (1.0, 1.0)
    weights_seen: list[float] = field(default_factory=list)

    def train(self, sent: Mapping[str, np.ndarray], mode: str) -> dict[str, np.ndarray]:
        net = Net(sent).train()
        teacher = None if self.old is None else Net(self.old).eval()
        optimiser = torch.optim.SGD(
            net.parameters(), lr=self.rates[0], weight_decay=self.weight_decay
        )
        for epoch, rate in enumerate(self.rates):
            optimiser.param_groups[0]["lr"] = rate
            order = [int(row) for row in self.order(epoch)]
            for start in range(0, len(order), self.batch):
                rows = order[start : start + self.batch]
                if len(rows) < 2:
                    continue
                scores = net(self.inputs[rows])
                with torch.no_grad():
                    taught = None if teacher is None else teacher(self.inputs[rows])
                optimiser.zero_grad()
                getattr(self, mode)(rows, scores, taught).backward()
                optimiser.step()
        return net.arrays()

    def paper(self, rows: list[int], scores: Tensor, taught: Tensor | None) -> Tensor:
        """(2) to (7)."""
        shares = torch.softmax(scores.detach(), dim=1)
        own = [self.labels[row] for row in rows]
        new = {label for label in self.labels if label not in self.stored}
        e = len(self.stored) / (len(self.stored) + len(new))
        sizes = [abs(float(shares[i, y]) - 1) ** e for i, y in enumerate(own)]
        weights = []
        for i, y in enumerate(own):
            group = [sizes[j] for j, z in enumerate(own) if self.tasks[z] == self.tasks[y]]
            weights.append(sizes[i] / (sum(group) / len(group)))
        self.weights_seen += weights
        return self._sum_of_softmax(own, scores, taught, weights, weights)

    def glfc(self, rows: list[int], scores: Tensor, taught: Tensor | None) -> Tensor:
        """Two groups, e = 1, distillation unweighted."""
        shares = torch.softmax(scores.detach(), dim=1)
        own = [self.labels[row] for row in rows]
        sizes = [1 - float(shares[i, y]) for i, y in enumerate(own)]
        weights = []
        for i, y in enumerate(own):
            group = [
                sizes[j] for j, z in enumerate(own) if (z in self.stored) == (y in self.stored)
            ]
            weights.append(sizes[i] / (sum(group) / len(group)) if self.stored else 1.0)
        return self._sum_of_softmax(own, scores, taught, weights, [1.0] * len(own))

    def _sum_of_softmax(
        self,
        own: list[int],
        scores: Tensor,
        taught: Tensor | None,
        first: list[float],
        second: list[float],
    ) -> Tensor:
        logarithms = torch.log_softmax(scores, dim=1)
        compensation = sum(-first[i] * logarithms[i, y] for i, y in enumerate(own)) / len(own)
        if taught is None:
            return compensation
        semantic = torch.zeros(())
        for i, y in enumerate(own):
            known = torch.softmax(taught[i], dim=0).tolist()
            target = [*known, *(float(c == y) for c in range(len(known), scores.shape[1]))]
            for c, share in enumerate(target):
                if share:
                    semantic = semantic + second[i] * share * (log(share) - logarithms[i, c])
        return self.gammas[0] * compensation + self.gammas[1] * semantic / len(own)

    def code(self, rows: list[int], scores: Tensor, taught: Tensor | None) -> Tensor:
        """The released program."""
        chances = torch.sigmoid(scores)
        own = [self.labels[row] for row in rows]
        past = max(self.tasks)
        power = past / (past + 1) if past else 1.0
        sizes = [abs(float(chances[i, y].detach()) - 1) ** power for i, y in enumerate(own)]
        weights = [1.0] * len(own)
        if self.stored:
            groups = [{y for y in own if y not in self.stored}]
            for j in range(1, past + 1):
                groups.append({c for c in self.stored if self.tasks[c] < j})
            for i, y in enumerate(own):
                total = 0.0
                for group in groups:
                    members = [sizes[k] for k, z in enumerate(own) if z in group]
                    if y in group:
                        total += sizes[i] / (sum(members) / len(members))
                weights[i] = min(5.0, max(0.5, total))
        self.weights_seen += weights
        hot = torch.tensor([[float(c == y) for c in range(scores.shape[1])] for y in own])
        loss = self._binary(chances, hot, weights)
        if taught is None:
            return loss
        soft = hot.clone()
        soft[:, : taught.shape[1]] = torch.sigmoid(taught)
        return loss + self._binary(chances, soft, weights)

    def _binary(self, chances: Tensor, labels: Tensor, weights: list[float]) -> Tensor:
        losses = -(labels * chances.log() + (1 - labels) * (1 - chances).log())
        return sum(w * losses[i].mean() for i, w in enumerate(weights)) / len(weights)
