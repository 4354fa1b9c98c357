"""Whether adapters that a fleet trains in its first task, before any sum, make exact heads better.

    FLEETLEDGER_DATA=FOLDER python -m benchmarks.papers.adapter_before.run --weights FILE

The folder holds cifar100.npz; FILE is the ResNet-20 of akamaster/pytorch_resnet_cifar10, trained on
CIFAR-10, as safetensors. 20 classes of CIFAR-100 come in tasks. Ten devices share every class by
Dirichlet 0.5; behind every block of the frozen network stands x + B relu(A x), 1 x 1 convolutions
of 16 channels, B zero at first. Eight devices train A, B and a head that is thrown away on the
first task by FedAvg. Then the adapted network is frozen, and all tasks are sums.

The gate: two devices train nothing. Of their images of the first task they ask two exact heads,
solved from the sums of the other eight with adapters and without. Adapters are kept where images
that only they get right outnumber those that only they lose by two standard deviations.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import cos, pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.numpy import load_file
from torch import Tensor, nn
from torch.nn import functional

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from fleetledger.learning.losses.prior import log_prior
from fleetledger.learning.numerics.ridge import solve_ridge
from fleetledger.learning.numerics.ridge_choice import RIDGES, choose_ridge
from fleetledger.methods.statistics.linear_head import whitened_weights

RESULTS = RESULTS_FOLDER / "adapter_before.json"
TRAINED = "CIFAR-10"
SEEDS, CLASSES, FIRST = (1, 2, 3), 20, (4, 10)
DEVICES, HELD_OUT, SKEW = 10, 2, 0.5
ROUNDS, EPOCHS, BATCH, RATE, RANK = 10, 2, 32, 0.02, 16
_WIDTHS = (*(16,) * 3, *(32,) * 3, *(64,) * 3)
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

Weights = Mapping[str, Tensor]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Part:
    """Pictures (n, 3, 32, 32), their classes and their devices (n,)."""

    pictures: Tensor
    labels: Tensor
    owners: Tensor

    def of(self, rows: Tensor) -> Part:
        """Return some of them."""
        return Part(self.pictures[rows], self.labels[rows], self.owners[rows])


class Adapted(nn.Module):
    """ResNet-20 with an adapter behind each block; its own tensors stay as they are."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.weights = weights
        self.down = nn.ModuleList(nn.Conv2d(width, RANK, 1) for width in _WIDTHS)
        self.up = nn.ModuleList(nn.Conv2d(RANK, width, 1) for width in _WIDTHS)
        for layer in self.up:
            for tensor in layer.parameters():
                nn.init.zeros_(tensor)

    def forward(self, pictures: Tensor) -> Tensor:
        """Return the means over pixels (n, 112) of the three groups' last maps."""
        maps = self._normal("bn1", self._convolved("conv1", pictures)).relu()
        seen = []
        for place, width in enumerate(_WIDTHS):
            name, halved = f"layer{place // 3 + 1}.{place % 3}", place in (3, 6)
            inner = self._convolved(f"{name}.conv1", maps, 1 + halved)
            inner = self._normal(f"{name}.bn1", inner).relu()
            inner = self._normal(f"{name}.bn2", self._convolved(f"{name}.conv2", inner))
            if halved:
                maps = functional.pad(maps[:, :, ::2, ::2], (0, 0, 0, 0, width // 4, width // 4))
            maps = (maps + inner).relu()
            maps = maps + self.up[place](self.down[place](maps).relu())
            if place % 3 == 2:
                seen.append(maps.mean(dim=(2, 3)))
        return torch.cat(seen, dim=1)

    def _convolved(self, name: str, maps: Tensor, stride: int = 1) -> Tensor:
        return functional.conv2d(maps, self.weights[f"{name}.weight"], None, stride, 1)

    def _normal(self, name: str, maps: Tensor) -> Tensor:
        held = (self.weights[f"{name}.{part}"] for part in ("running_mean", "running_var"))
        learned = (self.weights[f"{name}.{part}"] for part in ("weight", "bias"))
        return functional.batch_norm(maps, *held, *learned)


@torch.no_grad()
def features(network: Adapted, part: Part) -> Floats:
    """Return features (n, 113) in float64, the last of them 1."""
    seen = [network(some).numpy() for some in part.pictures.split(250)]
    return np.pad(np.concatenate(seen).astype(np.float64), ((0, 0), (0, 1)), constant_values=1)


def exact_head(seen: Floats, labels: Tensor, classes: int) -> Floats:
    """Return the head (113, C) of preset `best`: a ridge chosen from the sums, whitened."""
    targets = np.eye(classes)[labels.numpy()]
    gram, sums = seen.T @ seen, seen.T @ targets
    unit = float(np.square(seen).max())
    ridges = [unit * ridge for ridge in RIDGES]
    counts = targets.sum(axis=0).astype(np.int64)
    ridge = choose_ridge(gram, sums, counts, ridges)
    assert ridge is not None, "there are two classes at least"
    return whitened_weights(solve_ridge(gram, sums, ridge), sums)


def right(head: Floats, seen: Floats, labels: Tensor) -> npt.NDArray[np.bool_]:
    """Return which samples a head gets right."""
    return np.asarray((seen @ head).argmax(axis=1) == labels.numpy())


def trained(weights: Weights, first: Part, classes: int, seed: int) -> Adapted:
    """Return the network with adapters that devices have trained on the first task."""
    torch.manual_seed(seed)
    fleet = nn.ModuleList([Adapted(weights), nn.Linear(sum({16, 32, 64}), classes)])
    learners = [first.of(first.owners == device) for device in range(DEVICES - HELD_OUT)]
    for number in range(ROUNDS):
        rate = RATE * 0.5 * (1 + cos(pi * number / ROUNDS))
        sent = {name: tensor.clone() for name, tensor in fleet.state_dict().items()}
        mean = {name: torch.zeros_like(tensor) for name, tensor in sent.items()}
        for part in learners:
            fleet.load_state_dict(sent)
            _locally(fleet, part, rate, classes)
            for name, tensor in fleet.state_dict().items():
                mean[name] += tensor * (len(part.labels) / sum(len(p.labels) for p in learners))
        fleet.load_state_dict(mean)
    network = fleet[0].eval()
    assert isinstance(network, Adapted)
    return network


def _locally(fleet: nn.ModuleList, part: Part, rate: float, classes: int) -> None:
    prior = log_prior(torch.bincount(part.labels, minlength=classes), 1.0, 0.0)
    steps = torch.optim.SGD(fleet.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(part.labels)).split(BATCH):
            pictures = part.pictures[rows]
            mirrored = torch.rand(len(rows)) < 0.5
            pictures = torch.where(mirrored[:, None, None, None], pictures.flip(3), pictures)
            scores = fleet[1](fleet[0](pictures)) + prior
            steps.zero_grad()
            functional.cross_entropy(scores, part.labels[rows]).backward()
            steps.step()


def measured(weights: Weights, train: Part, test: Part, first: int, seed: int) -> dict[str, Any]:
    """Return what adapters of the first `first` classes come to, and what the gate says of them."""
    began = time.process_time()
    task = train.of(train.labels < first)
    gives, asks = (task.owners < DEVICES - HELD_OUT), (task.owners >= DEVICES - HELD_OUT)
    frozen, adapted = Adapted(weights).eval(), trained(weights, task.of(gives), first, seed)
    asked: list[npt.NDArray[np.bool_]] = []
    found: dict[str, Any] = {"seed": seed, "first": first}
    for name, network in (("frozen", frozen), ("adapted", adapted)):
        head = exact_head(features(network, task.of(gives)), task.of(gives).labels, first)
        asked.append(right(head, features(network, task.of(asks)), task.of(asks).labels))
        head = exact_head(features(network, train), train.labels, CLASSES)
        last = right(head, features(network, test), test.labels)
        early = (test.labels < first).numpy()
        found[name] = round(100 * float(last.mean()), 2)
        found[f"{name}_later"] = round(100 * float(last[~early].mean()), 2)
    gained, lost = int((asked[1] & ~asked[0]).sum()), int((asked[0] & ~asked[1]).sum())
    keeps = gained - lost > 2 * sqrt(gained + lost)
    gate = {"asked": len(asked[0]), "gained": gained, "lost": lost, "keeps": keeps}
    return {**found, **gate, "processor_seconds": round(time.process_time() - began, 1)}


def parts(file: Path, seed: int) -> tuple[Part, Part]:
    """Return pictures of 20 classes in the seed's order, dealt to devices, and test pictures."""
    held, chance = np.load(file), np.random.default_rng(seed)
    chosen = chance.permutation(len(held["class_names"]))[:CLASSES]
    place = {int(label): row for row, label in enumerate(chosen)}
    made = []
    for kind in ("train", "test"):
        rows = np.flatnonzero(np.isin(held[f"{kind}_y"], chosen))
        values = torch.from_numpy(held[f"{kind}_x"][rows]).permute(0, 3, 1, 2).float() / 255
        values = (values - torch.tensor(_MEAN)[:, None, None]) / torch.tensor(_DEVIATION)[
            :, None, None
        ]
        labels = np.array([place[int(label)] for label in held[f"{kind}_y"][rows]])
        owners = np.zeros(len(rows), np.int64)
        for label in range(CLASSES):
            of_class = np.flatnonzero(labels == label)
            shares = chance.dirichlet([SKEW] * DEVICES)
            owners[of_class] = chance.choice(DEVICES, len(of_class), p=shares)
        made.append(Part(values.contiguous(), torch.from_numpy(labels), torch.from_numpy(owners)))
    return made[0], made[1]


def network(file: Path) -> Weights:
    """Return the trained network in float32."""
    return {
        tensor: torch.from_numpy(array.astype(np.float32))
        for tensor, array in load_file(file).items()
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure every first task and seed that is not stored yet, and store each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    folder = Path(os.environ.get("FLEETLEDGER_DATA", "."))
    parser.add_argument("--data", type=Path, default=folder / "cifar100.npz")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows = json.loads(options.out.read_text("utf-8"))["rows"] if options.out.exists() else []
    known = {(row["first"], row["seed"]) for row in rows}
    weights = network(options.weights)
    for seed in SEEDS:
        train, test = parts(options.data, seed)
        for first in FIRST:
            if (first, seed) in known:
                continue
            row = {"backbone": TRAINED, **measured(weights, train, test, first, seed)}
            rows.append(row)
            print(json.dumps(row), flush=True)
            machine = describe_machine("numpy", "torch")
            report = {"claim": "adapter_before", "rows": rows, "machine": machine}
            options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
