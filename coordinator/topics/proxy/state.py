"""What the state knows of what the proxy chose."""

from __future__ import annotations

from dataclasses import dataclass, field

from fleetledger.coordinator.topics.lineages.state import LineagesState
from fleetledger.coordinator.topics.rounds.state import RoundsState, Weights
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.proxy import Scored
from fleetledger.schemas.rounds import RoundNumber

OLD_MODEL = "old-model"
"""The extra file of an order with the best model of the task before the present one."""

NEW_MODEL = "new-model"
"""With the best model of the present task so far."""


class OldModel(Strict):
    """Weights of the fleet that devices distil from, and the round that gave them."""

    round: RoundNumber
    weights: Offer


@dataclass(frozen=True)
class Chosen:
    """What the proxy answered, by entry, and the old models that devices get by it."""

    index: int
    answer: Scored
    previous: OldModel | None
    current: OldModel | None


@dataclass
class OldModelsState:
    """What the proxy chose, and how far it has come."""

    lineages: LineagesState = field(repr=False, compare=False)
    """Parts before this one, to read from."""
    rounds: RoundsState = field(repr=False, compare=False)
    chosen: Chosen | None = None
    """Its newest answer."""
    settled: int = -1
    """The newest action that was answered, or waited for in vain."""

    @property
    def offers(self) -> dict[str, Offer]:
        """What devices get beside the fleet's weights, by the name under which methods know it."""
        if self.chosen is None:
            return {}
        slots = {OLD_MODEL: self.chosen.previous, NEW_MODEL: self.chosen.current}
        return {name: slot.weights for name, slot in slots.items() if slot is not None}

    @property
    def unscored(self) -> Weights | None:
        """The fleet's weights, while the proxy has neither scored them nor been given up."""
        weights = self.rounds.weights
        if self.lineages.with_proxy is None or weights is None or weights.averaged is None:
            return None
        return weights if weights.index > self.settled else None
