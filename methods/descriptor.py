"""What a method says of itself without importing either side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleetledger.schemas.contributions import PayloadKind

LEARN = "learn"
"""The phase that every method has: local data become contributions."""


@dataclass(frozen=True)
class Descriptor:
    """A method's name, its source, and what each phase needs on a device.

    `needs` maps a phase to names such as `numpy`, `onnxruntime` and `torch`; a device lists what
    it has in its birth, and the coordinator invites it only to what it can run.
    """

    name: str
    title: str
    citation: str
    payload_kinds: tuple[PayloadKind, ...]
    needs: Mapping[str, frozenset[str]]
    kinds_of_phases: Mapping[str, PayloadKind] = field(default_factory=dict)
    """What devices send in the phases of training whose answers are not of the first of
    `payload_kinds`. Owners decide by it what may leave a device, so a phase has one kind."""
    trains: bool = False
    """Whether networks are trained in rounds, rather than statistics sent once."""
    on_features: bool = False
    """Whether its networks are trained on features of a frozen backbone and on nothing else."""
    observes: bool = False
    """Whether devices that a round does not ask to train are asked to look at their images."""
    proxy: bool = False
    """Whether devices send gradients to a proxy, which chooses the old models that they get."""
    asynchronous: bool = False
    """Whether its rounds may be asynchronous: answers are weights, and nothing but averaged."""
    averages: bool = False
    """Whether what becomes of its answers is their mean, number by number, so that it may be a
    robust one."""
    segments: bool = False
    """Whether its networks give every pixel a class, and are trained on pictures with masks."""

    of_pictures: bool = False
    """Whether its networks are trained on pictures alone, and on nothing else."""
    disjoint: bool = False
    """Whether it learns a class in one stage, so that none may return in a later one."""

    def freezes_for(self, other: Descriptor) -> bool:
        """Whether a network that it trains can be the backbone of the other's features."""
        return self.trains and not other.trains

    def can_run(self, phase: str, features: frozenset[str]) -> bool:
        """Whether a device with these features can run the phase; unknown phases never run."""
        needed = self.needs.get(phase)
        return needed is not None and needed <= features

    def kind_of(self, phase: str) -> PayloadKind:
        """Return the kind of payload that devices send in a phase of training."""
        return self.kinds_of_phases.get(phase, self.payload_kinds[0])
