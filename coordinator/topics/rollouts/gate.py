"""A gate of rollouts as a value: what it looks at, how it judges, and every word about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import Field

from fleetledger.coordinator.topics.rollouts.evidence import Evidence
from fleetledger.coordinator.topics.rollouts.plan import GatePlan
from fleetledger.coordinator.topics.rollouts.scope import Outcome, Scope
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import ClassName, DeviceId


class GateResult(Strict):
    """Outcome of one gate, with its figures."""

    outcome: Outcome
    value: float | None = None
    """Measured value, for example log e. None if not measured."""
    limit: float | None = None
    counts: tuple[int, ...] = ()
    """Images and devices behind the value, for example images that only the active model, only
    the candidate had right."""
    of_class: ClassName | None = None
    """The class that decides."""
    alone: DeviceId | None = None
    """Device without which the outcome would be another one: then a person decides."""
    too_little: bool = False
    """Whether it is inconclusive because too little was measured."""
    text: str = Field(max_length=1000)
    """The same for people."""


@dataclass(frozen=True)
class Gate:
    """A condition on a candidate, written once: programs, pages and docs read it here."""

    name: str
    """In JSON and in the ledger."""
    settings: tuple[str, ...]
    """Fields of `GatePlan` that are its own; None in the first one switches the gate off."""
    judge: Callable[[GatePlan, Evidence, Scope], GateResult | None]
    """Judges a gate that is on. Returns None if no device can measure it."""
    looks_at: str
    """For the table of gates in the docs."""
    fails_when: str
    """The same."""
    rule: Callable[[GatePlan, str, int], str]
    """The limit in words, by the plan, the model before (`model 3`) and how many classes it has."""
    short: Callable[[GateResult], str]
    """The figures alone. An empty text stands for the whole text of the finding."""
    words: str
    """What speaks against the candidate, from `{model}`, `{before}` and `{of_class}`."""
    unsure: str = ""
    """The same where it is inconclusive. Empty for the words above."""
    needed: bool = False
    """Whether too little of it holds the rollout, from the second group on."""
    logarithm: bool = False
    """Whether its value is a logarithm, which machines may round differently."""
    zero_is_off: bool = False
    """Whether 0 switches it off, as None does."""

    @property
    def title(self) -> str:
        """The name as people read it."""
        return self.name.replace("_", " ")

    def is_on(self, plan: GatePlan) -> bool:
        """Return whether the plan asks for this gate."""
        limit = getattr(plan, self.settings[0])
        return limit is not None and not (self.zero_is_off and limit == 0)
