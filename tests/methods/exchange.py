"""What a coordinator asks of a round and devices answer, by hand: alike for methods that average.

`making.py` of each method has one; `test_every_averaging_method` goes over them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.exchange import CountedUpdate, RoundConfig, RoundOutcome
from fleetledger.schemas.values import ClassName
from tests.methods.making import Arrays, config_of, given, shaken


@dataclass(frozen=True)
class Exchange:
    """The rounds of a method at its coordinator."""

    coordinator: Any
    received: Callable[[Any, RoundConfig], Arrays]
    """What devices begin with."""
    frame_of: Callable[[Any, Arrays, RoundConfig], UpdateFrame]
    """What answers look like, of devices that began with these."""
    names: tuple[ClassName, ...]
    """The classes of the first stage."""
    shape: tuple[int, ...]
    small: dict[str, Any] = field(default_factory=dict)
    """Settings of networks that learn in no time."""

    def assignment(self, **settings: Any) -> Any:
        return self.coordinator.assign(self.small | settings, self.shape)

    def asked(
        self,
        of: Any,
        *names: ClassName,
        weights: bytes | None = None,
        rows: tuple[ClassName, ...] = (),
        **changes: Any,
    ) -> RoundConfig:
        """The first of two rounds; without `weights` of a fleet that has learned nothing."""
        first = weights or self.coordinator.first_weights(of)
        changes = {"phase": of.round_phases[0]} | changes
        return config_of(first, names or self.names, rows, **changes)

    def sent(self, of: Any, question: RoundConfig) -> Arrays:
        """What devices begin with."""
        return self.received(of, question)

    def moved(self, of: Any, question: RoundConfig, seed: int, far: float = 0.1) -> Arrays:
        """Weights as a device might have trained them."""
        return shaken(self.sent(of, question), seed, far)

    def answer(self, of: Any, question: RoundConfig, arrays: Arrays) -> bytes:
        return self.frame_of(of, self.sent(of, question), question).encode(arrays)

    def answers(
        self, of: Any, question: RoundConfig, *counts: int
    ) -> tuple[list[Arrays], list[CountedUpdate]]:
        """Models that were trained on so many samples each, and what their devices answer."""
        models = [self.moved(of, question, seed) for seed in range(len(counts))]
        payloads = [self.answer(of, question, model) for model in models]
        return models, [given(*pair) for pair in zip(payloads, counts, strict=True)]

    def combined(self, of: Any, question: RoundConfig, seed: int) -> RoundOutcome:
        """What a round with one answer comes to."""
        payload = self.answer(of, question, self.moved(of, question, seed))
        return self.coordinator.combine(of, question, [given(payload)])
