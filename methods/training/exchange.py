"""What the sides of a method that trains are given, and what they give back.

`methods.training.sides` has the sides themselves. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.robust import Robust
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.rounds import Observation, RoundOrder
from fleetledger.schemas.values import ClassName, Digest

if TYPE_CHECKING:
    from fleetledger.learning.training.resident import ResidentSamples
    from fleetledger.learning.training.work import Trained, Work

State_co = TypeVar("State_co", covariant=True)

BASE = "base"
"""The extra file with the network's tensors that nobody trains, where it has some."""
SHARED = "shared"
"""The extra file with images that all devices have, where a method distils on such."""


@dataclass(frozen=True)
class FitInstruction:
    """What a device is asked to train, with the files that the round names."""

    stage: int
    stage_class_names: tuple[ClassName, ...]
    """Classes that the stage is about: those that it added, and those that return in it."""
    round: RoundOrder
    weights: bytes
    extras: Mapping[str, bytes]
    device: str
    """The device's name, of which its chance depends."""
    class_stages: tuple[int, ...] = ()
    """The stage that first brought each row of the head."""
    gives_gradients: bool = True
    """Whether the device's owner lets gradients go to the method's proxy."""
    noise_seed: bytes = b""
    """Secret of the device for this answer, of which its noise is drawn, where it adds some."""

    def stages_of_rows(self) -> tuple[int, ...]:
        """Return the stage that brought each row of the head; raise `MethodError` without it."""
        stages, names = self.class_stages, self.round.class_names
        if len(stages) != len(names):
            raise MethodError(
                f"class_stages: {len(stages)} for {count_of(len(names), 'class', 'classes')}, and "
                "the loss compares classes by their stage; update the coordinator"
            )
        return stages


Exemplars = Literal["images", "features"]


@dataclass(frozen=True, eq=False)
class LocalData:
    """What a device trains on, with the class and the image's digest of each row.

    Pictures, uint8 (N, c, h, w) at the network's size; or, where the network is trained on the
    features of a frozen backbone, these, float32 (N, d).
    """

    inputs: npt.NDArray[np.uint8] | npt.NDArray[np.float32] | ResidentSamples
    """The last where a simulator has the samples of all agents on their accelerator."""
    class_names: tuple[ClassName, ...]
    digests: tuple[Digest, ...]
    exemplars_as: Exemplars = "images"
    """What the device lets a method remember of a sample: that its image lies in the folder, or
    its features, which stay when the image is gone."""
    masks: npt.NDArray[np.uint8] | None = None
    """Of methods whose descriptor says `segments`, the mask of each picture, uint8 (N, h, w): 0 is
    background, 255 is left out of everything, v else the class `mask_class_names[v - 1]`. The
    digest of a row is then that of picture and mask together, and its class name that of the class
    with most pixels in the mask."""
    mask_class_names: tuple[ClassName, ...] = ()
    """Sorted; by the names that classes have now."""

    def __len__(self) -> int:
        return len(self.class_names)


@dataclass(frozen=True, eq=False)
class FitJob(Generic[State_co]):
    """What is to be trained, and what `finish` has to know of it."""

    work: Work | None
    """None where the phase only measures, so that no engine is needed."""
    samples: Mapping[ClassName, int]
    """Training samples by class."""
    state: State_co
    """The method's own."""
    following: Callable[[Trained], FitJob[State_co]] | None = None
    """Given what was trained, says what is trained after it; `finish` gets the last of them."""


@dataclass(frozen=True, eq=False)
class Observed:
    """What a device saw with the fleet's model, and what it remembers from here on."""

    observation: Observation
    memory: bytes | None = None


@dataclass(frozen=True, eq=False)
class ClientUpdate:
    """What a device answers: a payload, and what it remembers from here on."""

    payload: bytes
    samples: dict[ClassName, int]
    steps: int
    loss: float | None
    memory: bytes | None = None
    stored_samples: int = 0
    observation: Observation | None = None
    gradients: bytes | None = None
    """For the proxy, which methods have whose descriptor says so; never for the coordinator."""


@dataclass(frozen=True)
class RoundConfig:
    """A round as the coordinator side is told of it."""

    phase: str
    round_of_stage: int
    rounds_of_stage: int
    weights: bytes
    """The weights that were sent."""
    weights_class_names: tuple[ClassName, ...]
    class_names: tuple[ClassName, ...]
    extras: Mapping[str, bytes] = field(default_factory=dict)
    aliases: Mapping[ClassName, ClassName] = field(default_factory=dict)
    """Other names of these classes, which files of before may have."""
    mean: tuple[float, ...] = ()
    """With `deviation`, per channel: how uint8 pictures become inputs where a coordinator side
    trains, as `learning.networks.pictures.Pictures`; empty where the network sees no pictures."""
    deviation: tuple[float, ...] = ()
    seed: int = 0
    """Of the round, as devices are told."""
    robust: Robust | None = None
    """How answers count that may be anybody's; None for their mean as it is."""
    noise_seed: bytes = b""
    """Of the noise on the mean, which no device is told."""

    @property
    def ends_stage(self) -> bool:
        """Whether nothing of the stage follows."""
        return self.round_of_stage == self.rounds_of_stage


@dataclass(frozen=True)
class CountedUpdate:
    """An update that counts: its number of samples, and how to get its payload."""

    samples: int
    read: Callable[[], bytes]


@dataclass(frozen=True)
class StaleUpdates:
    """Updates of an asynchronous round that began from the weights of one round."""

    config: RoundConfig
    """That round."""
    weight: int
    """What each of them counts by the age of these weights, of `STALENESS_STEPS`."""
    updates: Sequence[CountedUpdate]


@dataclass(frozen=True)
class BufferStep:
    """How the updates of an asynchronous round become weights."""

    rate: float
    mixes: bool
    """Whether the weights are drawn towards the updates, instead of moved as these have moved."""


@dataclass(frozen=True)
class AnswerMeasure:
    """How an answer lies beside the others of its round."""

    norm: float
    """Length of its move from what was sent, without running statistics, before it is cut."""
    cosine: float | None
    """Likewise of its move to the mean direction of the others; None where either did not move."""


@dataclass(frozen=True)
class RoundOutcome:
    """What a round's updates became."""

    weights: bytes
    extras: Mapping[str, bytes]
    """Every further file that devices are given from here on."""
    aggregate: Digest
    """Of the exact sum."""
    samples: int
    client_drift: float
    remarks: tuple[str, ...] = ()
    measures: Mapping[Digest, AnswerMeasure] = field(default_factory=dict)
    """Of each answer by the digest of its payload, where all were held."""


@dataclass(frozen=True, eq=False)
class RoundParts:
    """The devices' models of a round and their mean, for whoever compares them with the outcome."""

    models: Sequence[Mapping[str, npt.NDArray[Any]]]
    """All tensors of each device's network, by name."""
    weights: Sequence[int]
    """What each device's scores weigh in the ensemble of all."""
    mean: Mapping[str, npt.NDArray[Any]]
    """Of the models, before the coordinator trains on."""


@dataclass(frozen=True, eq=False)
class Partial:
    """What was added to one of several sums of the same round."""

    numbers: tuple[int, ...]
    arrays: tuple[npt.NDArray[np.generic], ...]

    def divided(self, numbers: int, arrays: int) -> tuple[Partial, Partial]:
        """Return the first so many numbers and arrays, and the others."""
        return (
            Partial(self.numbers[:numbers], self.arrays[:arrays]),
            Partial(self.numbers[numbers:], self.arrays[arrays:]),
        )

    def __add__(self, other: Partial) -> Partial:
        """Return both, one after the other."""
        return Partial(self.numbers + other.numbers, self.arrays + other.arrays)


class Summing(Protocol):
    """A sum of answers that grows as they come, so that none of them has to be kept."""

    def add(self, payload: bytes, samples: int) -> None:
        """Take in an answer; raise `MethodError` naming what is wrong."""

    def partial(self) -> Partial:
        """Return what was added here."""

    def join(self, other: Partial) -> None:
        """Take in what `partial` of another sum of the same round gave; raise `MethodError`.

        Sums are exact: it does not matter which answers were added where.
        """
