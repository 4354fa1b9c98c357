"""What a method that trains provides: its two halves, and what they are given and give back.

`begin` of the device half says what is to be trained and `finish` makes the answer of it; in
between an engine of `learning.training` runs, on a device for one agent and in a simulator for
many. The coordinator half checks answers and combines them. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from schemas.rounds import Observation, RoundOrder
from schemas.values import ClassName, Digest

BASE = "base"
"""The extra file of an order with the network's tensors that nobody trains, where it has some."""
SHARED = "shared"
"""The extra file with images that all devices have, where a method distils on such."""


@dataclass(frozen=True)
class Order:
    """What a device is asked, with the files that the order names."""

    stage: int
    stage_class_names: tuple[ClassName, ...]
    """Classes that the stage added."""
    round: RoundOrder
    weights: bytes
    extras: Mapping[str, bytes]
    device: str
    """The device's name, of which its chance depends."""
    class_stages: tuple[int, ...] = ()
    """The stage that brought each row of the head."""
    gives_gradients: bool = True
    """Whether the device's owner lets gradients go to the method's proxy."""


Exemplars = Literal["images", "features"]


@dataclass(frozen=True, eq=False)
class LocalData:
    """What a device trains on, with the class and the image's digest of each row.

    Pictures, uint8 (N, c, h, w) at the network's size; or, where the network is trained on the
    features of a frozen backbone, these, float32 (N, d).
    """

    inputs: npt.NDArray[np.uint8] | npt.NDArray[np.float32]
    class_names: tuple[ClassName, ...]
    digests: tuple[Digest, ...]
    exemplars_as: Exemplars = "images"
    """What the device lets a method remember of a sample: that its image lies in the folder, or
    its features, which stay when the image is gone."""
    masks: npt.NDArray[np.uint8] | None = None
    """Of methods whose card says `segments`, the mask of each picture, uint8 (N, h, w): 0 is
    background, 255 is left out of everything, v else the class `mask_class_names[v - 1]`. The
    digest of a row is then that of picture and mask together, and its class name that of the class
    with most pixels in the mask."""
    mask_class_names: tuple[ClassName, ...] = ()
    """Sorted; by the names that classes have now."""

    def __len__(self) -> int:
        return len(self.class_names)


@dataclass(frozen=True, eq=False)
class Begun:
    """What is to be trained, and what `finish` has to know of it."""

    work: Any
    """`learning.training.work.Work`."""
    samples: Mapping[ClassName, int]
    """Training samples by class."""
    trains: bool = True
    """False where the phase only measures, so that no engine is needed."""
    kept: Any = None
    """The method's own."""
    following: Callable[[Any], Begun] | None = None
    """Given what was trained, says what is trained after it; `finish` gets the last of them."""


@dataclass(frozen=True, eq=False)
class Observed:
    """What a device saw with the fleet's model, and what it remembers from here on."""

    observation: Observation
    memory: bytes | None = None


@dataclass(frozen=True, eq=False)
class Answer:
    """What a device answers: a payload, and what it remembers from here on."""

    payload: bytes
    samples: dict[ClassName, int]
    steps: int
    loss: float | None
    memory: bytes | None = None
    stored_samples: int = 0
    observation: Observation | None = None
    gradients: bytes | None = None
    """For the proxy, which methods have whose card says so; never for the coordinator."""


@dataclass(frozen=True)
class Asked:
    """A round as the coordinator half is told of it."""

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
    """With `deviation`, per channel: how uint8 pictures become inputs where a coordinator half
    trains, as `learning.networks.pictures.Pictures`; empty where the network sees no pictures."""
    deviation: tuple[float, ...] = ()
    seed: int = 0
    """Of the round, as devices are told."""

    @property
    def ends_stage(self) -> bool:
        """Whether nothing of the stage follows."""
        return self.round_of_stage == self.rounds_of_stage


@dataclass(frozen=True)
class Given:
    """One answer that counts: its number of samples, and how to get its payload."""

    samples: int
    read: Callable[[], bytes]


@dataclass(frozen=True)
class Combined:
    """What a round's answers became."""

    weights: bytes
    extras: Mapping[str, bytes]
    """Every further file that devices are given from here on."""
    aggregate: Digest
    """Of the exact sum."""
    samples: int
    client_drift: float
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Partial:
    """What was added to one of several sums of the same round."""

    numbers: tuple[int, ...]
    arrays: tuple[npt.NDArray[Any], ...]

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
        """Take in an answer, packed or not; raise `MethodError` naming what is wrong."""

    def partial(self) -> Partial:
        """Return what was added here."""

    def join(self, other: Partial) -> None:
        """Take in what `partial` of another sum of the same round gave; raise `MethodError`.

        Sums are exact: it does not matter which answers were added where.
        """


class TrainingAssignment(Protocol):
    """What both halves are told, the same for a whole lineage.

    More may be true of an assignment; what it does not have is false. `first_weights_suffice`: a
    stage whose classes all lie in imported first weights has no rounds, and its closing phases
    alone. `needs_shared`: the operator gives images when the network is imported, and devices get
    them as the extra `SHARED`. `coordinator_trains`: a coordinator without torch refuses it.
    """

    @property
    def opening_phases(self) -> tuple[str, ...]:
        """What devices do once before a stage's rounds."""

    @property
    def round_phases(self) -> tuple[str, ...]:
        """What devices do in one round, one phase after the other.

        A later phase is asked of those whose answers counted in the phase before it, which its
        order names (`RoundOrder.follows`). Where it comes to nothing, the round begins again from
        the weights that it began with. Phases before the last usually give back the bytes of the
        weights that were sent, and further extras.
        """

    @property
    def closing_phases(self) -> tuple[str, ...]:
        """What devices do once after a stage's rounds."""

    @property
    def logit_scale(self) -> float:
        """Inverse temperature of exported models: softmax(logit_scale * scores)."""

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        """Return it as JSON values, for the ledger and the devices."""


class TrainingCoordinatorHalf(Protocol):
    """`methods/<name>/coordinator.py` of a method that trains; needs no torch."""

    def assign(
        self, settings: Mapping[str, Any], input_shape: tuple[int, ...]
    ) -> TrainingAssignment:
        """Return the assignment of a lineage; raise `MethodError`.

        `input_shape` is that of one sample: a picture (c, h, w), or (d,) where the network is
        trained on the features of a frozen backbone.
        """

    def read_assignment(self, body: Mapping[str, Any]) -> TrainingAssignment:
        """Return a dumped assignment; raise `MethodError`."""

    def first_weights(self, assignment: Any) -> bytes:  # noqa: ANN401 - each method has its own
        """Return the network before anybody trained, without a row in its head."""

    def check(self, assignment: Any, payload: bytes, asked: Asked) -> None:  # noqa: ANN401
        """Raise `ContributionError` unless the payload answers what was asked."""

    def summing(self, assignment: Any, asked: Asked, most: int) -> Summing:  # noqa: ANN401
        """Return the empty sum of at most so many answers to a round; raise `MethodError`."""

    def combine(
        self,
        assignment: Any,  # noqa: ANN401
        asked: Asked,
        answers: Sequence[Given] | Summing,
    ) -> Combined:
        """Return what a round's answers became, or their sum that `summing` began.

        Raises `MethodError`.
        """

    def shared_of(self, assignment: Any, images: npt.NDArray[np.uint8]) -> bytes:  # noqa: ANN401
        """Return the extra file `SHARED` of pictures (N, c, h, w) that the operator gives.

        Only methods have it whose assignments say `needs_shared`. Raises `MethodError`.
        """

    def network_of(self, assignment: Any, weights: bytes) -> tuple[Any, Any, tuple[ClassName, ...]]:  # noqa: ANN401
        """Return network, tensors by name and rows of the head, to be exported."""


class TrainingDeviceHalf(Protocol):
    """`methods/<name>/device.py` of a method that trains; imports torch."""

    def read_assignment(self, body: Mapping[str, Any]) -> TrainingAssignment:
        """Return the assignment that the coordinator's half dumped; raise `MethodError`."""

    def begin(
        self,
        assignment: Any,  # noqa: ANN401
        order: Order,
        data: LocalData,
        memory: bytes | None,
        pictures: Any,  # noqa: ANN401 - learning.networks.pictures.Pictures, or None
    ) -> Begun | None:
        """Return what is to be trained, or None where there is nothing; raise `MethodError`.

        `pictures` says how uint8 pictures become inputs; None where the data are features.
        """

    def finish(self, assignment: Any, begun: Begun, trained: Any) -> Answer:  # noqa: ANN401
        """Return the answer; raise `MethodError` where training left the numbers."""

    def observe(
        self,
        assignment: Any,  # noqa: ANN401
        order: Order,
        data: LocalData,
        memory: bytes | None,
        pictures: Any,  # noqa: ANN401 - learning.networks.pictures.Pictures
    ) -> Observed | None:
        """Return what the fleet's model makes of the images, or None where there are none.

        Only methods have it whose card says `observes`. Asked of devices that do not train in the
        round; those that do tell it with their answer. Raises `MethodError`.
        """
