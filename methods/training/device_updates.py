"""What a device sends when it has trained, or only measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fleetledger.methods.training.exchange import ClientUpdate, FitJob

if TYPE_CHECKING:
    from fleetledger.learning.training.work import Trained


class Remembered(Protocol):
    """What a device remembers from here on."""

    @property
    def stored(self) -> int:
        """Number of exemplars."""
        ...

    def write(self) -> bytes:
        """Return the memory as bytes."""
        ...


def update_of(
    job: FitJob[object], payload: bytes, memory: Remembered, trained: Trained | None = None
) -> ClientUpdate:
    """Return the update; without `trained` that of a phase that only measures, which is a step."""
    losses = () if trained is None else trained.losses
    return ClientUpdate(
        payload=payload,
        samples=dict(job.samples),
        steps=1 if trained is None else max(1, trained.steps),
        loss=losses[-1] if losses else None,
        memory=memory.write(),
        stored_samples=memory.stored,
    )
