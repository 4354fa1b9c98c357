"""FedHAF's local round as the page writes it: torch modules, torch's optimiser, sample by sample.

Slow and obvious, dropout 0; the only thing that it shares with the package is the order of the
samples of an epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

Order = Callable[[str, int], np.ndarray]
"""The order of the samples, of a part's epoch."""


class Fam(nn.Module):
    """Table 6, with the shortcut from the first hidden layer."""

    def __init__(self, inputs: int, hidden: int, width: int) -> None:
        super().__init__()
        self.linear0, self.norm0 = nn.Linear(inputs, hidden), nn.BatchNorm1d(hidden)
        self.linear1, self.norm1 = nn.Linear(hidden, hidden), nn.BatchNorm1d(hidden)
        self.linear2, self.norm2 = nn.Linear(hidden, width), nn.BatchNorm1d(width)
        self.shortcut = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h1 = torch.relu(self.norm0(self.linear0(x)))
        h2 = torch.relu(self.norm1(self.linear1(h1)))
        adapted: Tensor = self.norm2(self.linear2(h2)) + self.shortcut(h1)
        return adapted


class Head(nn.Module):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.hidden, self.norm = nn.Linear(width, 128), nn.BatchNorm1d(128)
        self.rows = nn.Linear(128, classes)

    def forward(self, adapted: Tensor) -> Tensor:
        scores: Tensor = self.rows(torch.relu(self.norm(self.hidden(adapted))))
        return scores


@dataclass
class Model:
    fam: Fam
    head: Head

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> Model:
        hidden, inputs = arrays["linear0.weight"].shape
        width = len(arrays["linear2.bias"])
        model = cls(Fam(inputs, hidden, width), Head(width, len(arrays["head.bias"])))
        for part, values in ((model.fam, {}), (model.head, {})):
            for name in part.state_dict():
                if not name.endswith("num_batches_tracked"):
                    values[name] = torch.tensor(arrays[_ours(part, name)])
            part.load_state_dict(values, strict=False)
        return model

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            _ours(part, name): value.detach().numpy()
            for part in (self.fam, self.head)
            for name, value in part.state_dict().items()
            if not name.endswith("num_batches_tracked")
        }

    def in_use(self) -> Model:
        return Model(deepcopy(self.fam).eval(), deepcopy(self.head).eval())


def _ours(part: nn.Module, name: str) -> str:
    return "head." + name.removeprefix("rows.") if isinstance(part, Head) else name


@dataclass
class Round:
    """One device in one round of task t >= 2; the first classes are the old ones."""

    inputs: Tensor
    labels: list[int]
    old: list[bool]
    """Whether a sample is an exemplar."""
    old_classes: int
    batch: int
    order: Order
    momentum: float = 0.9
    weight_decay: float = 5e-4
    exemplars_too: bool = False
    """Whether L_CE looks at exemplars, over the old classes, which are one task here."""

    def train(
        self, sent: Mapping[str, np.ndarray], before: Mapping[str, np.ndarray], **how: float
    ) -> dict[str, np.ndarray]:
        """Return what stage 1 and stage 2 make of `sent`; `before` is the model of task t - 1."""
        model, teacher = Model.of(sent), Model.of(before).in_use()
        model.fam.eval()
        model.head.train()
        optimiser = self._sgd(model.head, how["head_rate"])
        for rows in self._batches("head", int(how["head_epochs"])):
            scores = model.head(model.fam(self.inputs[rows]).detach())
            with torch.no_grad():
                taught = teacher.head(teacher.fam(self.inputs[rows]))
            loss = self.cross_entropy(rows, scores) + self.divergence(rows, scores, taught)
            _step(optimiser, loss)
        model.fam.train()
        model.head.eval()
        optimiser = self._sgd(model.fam, how["adapter_rate"])
        for rows in self._batches("body", int(how["adapter_epochs"])):
            adapted = model.fam(self.inputs[rows])
            with torch.no_grad():
                taught = teacher.fam(self.inputs[rows])
            loss = 2 * self.distance(rows, adapted, taught) + self.balance(rows, adapted)
            _step(optimiser, loss)
        return model.arrays()

    def train_together(
        self, sent: Mapping[str, np.ndarray], before: Mapping[str, np.ndarray], **how: float
    ) -> dict[str, np.ndarray]:
        """Return what one loop makes of `sent` by exemplars' labels too, and the counts of all."""
        model, teacher = Model.of(sent), Model.of(before).in_use()
        both = nn.ModuleList([model.fam, model.head]).train()
        optimiser = self._sgd(both, how["rate"])
        for rows in self._batches("all", int(how["epochs"])):
            adapted = model.fam(self.inputs[rows])
            with torch.no_grad():
                taught = teacher.fam(self.inputs[rows])
            labels = self.cross_entropy_with_counts(rows, model.head(adapted), how["strength"])
            keeping = how["distance"] * self.distance(rows, adapted, taught)
            _step(optimiser, labels + keeping + how["balance"] * self.balance(rows, adapted))
        return model.arrays()

    def cross_entropy_with_counts(self, rows: list[int], scores: Tensor, tau: float) -> Tensor:
        """The balanced softmax over all classes, whose counts are the device's."""
        losses = []
        for place, row in enumerate(rows):
            powers = [
                self.labels.count(label) ** tau * score.exp()
                for label, score in enumerate(scores[place])
            ]
            losses.append(-(powers[self.labels[row]] / torch.stack(powers).sum()).log())
        return _mean(losses)

    def cross_entropy(self, rows: list[int], scores: Tensor) -> Tensor:
        """(4), over the task's logits."""
        losses = []
        for place, row in enumerate(rows):
            label = self.labels[row]
            if label >= self.old_classes:
                new = torch.log_softmax(scores[place][self.old_classes :], dim=0)
                losses.append(-new[label - self.old_classes])
            elif self.exemplars_too:
                losses.append(-torch.log_softmax(scores[place][: self.old_classes], dim=0)[label])
        return _mean(losses)

    def divergence(self, rows: list[int], scores: Tensor, taught: Tensor) -> Tensor:
        """(5), KL(p_t || p_{t-1})."""
        losses = []
        for place, row in enumerate(rows):
            if self.old[row]:
                now = torch.softmax(scores[place][: self.old_classes], dim=0)
                then = torch.softmax(taught[place][: self.old_classes], dim=0)
                losses.append((now * (now / then).log()).sum())
        return _mean(losses)

    def distance(self, rows: list[int], adapted: Tensor, taught: Tensor) -> Tensor:
        """(2), as a mean over dimensions."""
        losses = [
            ((adapted[place] - taught[place]) ** 2).mean()
            for place, row in enumerate(rows)
            if self.old[row]
        ]
        return _mean(losses)

    def balance(self, rows: list[int], adapted: Tensor) -> Tensor:
        """(3)."""
        lengths: dict[bool, dict[int, list[Tensor]]] = {False: {}, True: {}}
        for place, row in enumerate(rows):
            label = self.labels[row]
            group = lengths[label >= self.old_classes]
            group.setdefault(label, []).append((adapted[place] ** 2).sum().sqrt())
        if not lengths[False] or not lengths[True]:
            return torch.zeros(())
        of_old, of_new = (
            _mean([_mean(values) for values in lengths[kind].values()]) for kind in (False, True)
        )
        return (of_new - of_old).abs()

    def _batches(self, part: str, epochs: int) -> Iterator[list[int]]:
        for epoch in range(epochs):
            order = [int(row) for row in self.order(part, epoch)]
            for start in range(0, len(order), self.batch):
                rows = order[start : start + self.batch]
                if len(rows) >= 2:
                    yield rows

    def _sgd(self, part: nn.Module, rate: float) -> torch.optim.SGD:
        return torch.optim.SGD(
            part.parameters(), lr=rate, momentum=self.momentum, weight_decay=self.weight_decay
        )


def _mean(values: list[Tensor]) -> Tensor:
    return torch.stack(values).mean() if values else torch.zeros(())


def _step(optimiser: torch.optim.SGD, loss: Tensor) -> None:
    optimiser.zero_grad()
    for group in optimiser.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    if loss.requires_grad:
        loss.backward()
    optimiser.step()
