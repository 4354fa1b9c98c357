"""What is trained: a round of each method's local training, as its own device side makes it.

Data are made up. How many, how large, and how many classes is what costs, and that is as the
protocols have it: FedHAF's fleet of a hundred agents, the first stage of `cifar100-stsa-scratch`,
and an epoch of a device in `cifar100-lga-10`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.speed.fedhaf_training.fleet import Size, body_works, head_works
from benchmarks.speed.lga_training.works import PICTURES, assignment, drawn, order, works
from fleetledger.learning.training.devices import moved_together
from fleetledger.learning.training.engine import train
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Trained, Tree, Work, shortened
from fleetledger.methods.rounds.coordinator import COORDINATOR
from fleetledger.methods.rounds.device import DEVICE
from fleetledger.schemas.values import ClassName

FIRST_STAGE: Mapping[str, Any] = {
    "preset": "fedavg",
    "network": "resnet18",
    "epochs": 2,
    "batch": 128,
    "rate": 0.04,
    "schedule": "cosine",
    "momentum": 0.9,
    "weight_decay": 5e-4,
    "pad": 4,
    "flip": True,
}
"""As the shipped scenario `cifar100-stsa-scratch` has it; a test holds them equal."""

_CLASSES = tuple(ClassName(f"class {number:02d}") for number in range(10))

Following = Callable[[Sequence[Work], Sequence[Trained]], list[Work]]
"""From works and what was trained to the works that the same agents train then."""


@dataclass(frozen=True, eq=False)
class LocalRound:
    """The works of a round's agents, and those that follow them where there are any."""

    works: Sequence[Work]
    following: Following | None = None

    def train(self, settings: TrainingEngineSettings) -> list[list[Trained]]:
        """Return what is made of the works and then of those that follow, agent by agent."""
        done = [train(self.works, settings)]
        if self.following is not None:
            done.append(train(self.following(self.works, done[0]), settings))
        return done

    def moved(self, device: str) -> LocalRound:
        """Return the round with all its tensors on a device."""
        return replace(self, works=moved_together(self.works, device))

    def of(self, agents: int) -> LocalRound:
        """Return the round of the first agents."""
        return replace(self, works=self.works[:agents])

    def short(self, batches: int) -> LocalRound:
        """Return the round with so many batches for each agent."""
        return replace(self, works=[shortened(work, batches) for work in self.works])

    def lasting(self, epochs: int) -> LocalRound:
        """Return the round with so many epochs, at the rate of the first."""
        return replace(self, works=[_lasting(work, epochs) for work in self.works])

    def doubled(self) -> LocalRound:
        """Return the round in float64; pictures are normalised beforehand and not shaken."""
        return replace(self, works=[_doubled(work) for work in self.works])


@dataclass(frozen=True, eq=False)
class Case:
    """A round of a method's local training, in the protocol's size and in a tiny one."""

    name: str
    full: Mapping[str, Any]
    small: Mapping[str, Any]
    make: Callable[..., LocalRound]
    stackable: bool = False
    float32_within: float = 1e-5
    """How far stack and loop may be apart in float32, relative to each tensor's largest value."""
    checked: Mapping[str, Any] | None = None
    """The size in which it is compared with the processor, which is slow; None: with a stack."""
    protocol: str = ""
    """Whose steps are counted below; empty where no protocol is extrapolated to."""
    protocol_steps: int = 0
    """Steps of all agents in the whole protocol, as counted for it."""

    def sizes(self, *, small: bool) -> Mapping[str, Any]:
        """Return what the round is made by."""
        return self.small if small else self.full

    def round(self, *, small: bool, device: str = "cpu") -> LocalRound:
        """Return the round on a device, which has computed what training begins with, too."""
        return self.make(device=device, **self.sizes(small=small)).moved(device)


def fedhaf_round(agents: int, samples: int, features: int, classes: int, device: str) -> LocalRound:
    """Return FedHAF's two works in a row: the head, and then the adapter; `device` has no part."""
    size = Size(agents, samples, features, classes)
    return LocalRound(head_works(size), partial(body_works, size))


def fleet_round(
    agents: int, images: int, side: int, settings: Mapping[str, Any], device: str
) -> LocalRound:
    """Return a round of the method `rounds`, each agent with other chance.

    Every fourth agent has as many images, those between up to three less: a stack pads. A last
    batch of two images would not do: its norms make 1e-3 of what is rounded.
    """
    of = COORDINATOR.assign(dict(settings), (3, side, side))
    told = order(1, _CLASSES, (), COORDINATOR.first_weights(of), {})
    made, engine = [], TrainingEngineSettings(device=device)
    for agent in range(agents):
        instruction = replace(told, device=f"device-{agent}")
        data = drawn(of, _CLASSES, images - agent % 4)
        job = DEVICE.begin(of, instruction, data, None, PICTURES, engine)
        assert job is not None
        assert job.work is not None
        made.append(job.work)
    return LocalRound(made)


def lga_round(
    task: str, network: str, images: int, side: int, batch: int, device: str
) -> LocalRound:
    """Return an epoch of one device of LGA, in its first task or in a later one.

    It has looked at its images before, on the device: a processor takes minutes for these.
    """
    of = assignment(network, side, batch, epochs=1)
    return LocalRound([works(of, images, TrainingEngineSettings(device=device))[task]])


def _checked(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"agents": 1, "images": 40, "side": 16, "settings": {**settings, "batch": 16}}


def _lga(task: str) -> Case:
    return Case(
        f"lga {task}",
        {"task": task, "network": "resnet18", "images": 4992, "side": 32, "batch": 128},
        {"task": task, "network": "resnet8", "images": 20, "side": 8, "batch": 8},
        lga_round,
        checked={"task": task, "network": "resnet18", "images": 40, "side": 16, "batch": 16},
        protocol="LGA in 10 tasks",
        protocol_steps=780_000,
    )


def _fleet(network: str, agents: int, **more: Any) -> Case:  # noqa: ANN401 - fields of `Case`
    settings = {"network": network, "epochs": 2, "batch": 64}
    return Case(
        f"rounds {network}",
        {"agents": agents, "images": 256, "side": 32, "settings": settings},
        {"agents": 3, "images": 16, "side": 8, "settings": {**settings, "batch": 8}},
        fleet_round,
        **more,
    )


CASES = (
    Case(
        "fedhaf",
        {"agents": 100, "samples": 60, "features": 2048, "classes": 100},
        {"agents": 3, "samples": 12, "features": 8, "classes": 20},
        fedhaf_round,
        stackable=True,
    ),
    _fleet("mlp", 100, stackable=True),
    # Of 10^6 values behind a ReLU rounding moves some over zero: 1e-3 apart on a processor.
    _fleet("resnet8", 20, stackable=True, float32_within=1e-2),
    Case(
        "stsa first stage",
        {"agents": 5, "images": 1000, "side": 32, "settings": dict(FIRST_STAGE)},
        {
            "agents": 2,
            "images": 12,
            "side": 8,
            "settings": {**FIRST_STAGE, "network": "resnet8", "batch": 8},
        },
        fleet_round,
        checked=_checked(FIRST_STAGE),
        protocol="STSA's first stage",
        protocol_steps=8_400,
    ),
    _lga("first task"),
    _lga("later task"),
)


def _lasting(work: Work, epochs: int) -> Work:
    rates = work.optimiser.rates[:1] * epochs
    return replace(work, optimiser=replace(work.optimiser, rates=rates))


def _doubled(work: Work) -> Work:
    data = work.data
    inputs = data.inputs
    if work.pictures is not None:
        mean, deviation = (
            torch.tensor(values, dtype=torch.float64, device=inputs.device)[:, None, None]
            for values in (work.pictures.mean, work.pictures.deviation)
        )
        inputs = (inputs.double() / 255 - mean) / deviation
    return replace(
        work,
        parameters=_doubled_tree(work.parameters),
        buffers=_doubled_tree(work.buffers),
        frozen=_doubled_tree(work.frozen),
        data=replace(data, inputs=_doubled_leaf(inputs), extras=_doubled_tree(data.extras)),
        pictures=None,
    )


def _doubled_tree(tree: Tree) -> dict[str, Any]:
    return {
        name: _doubled_tree(leaf) if isinstance(leaf, Mapping) else _doubled_leaf(leaf)
        for name, leaf in tree.items()
    }


def _doubled_leaf(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor
