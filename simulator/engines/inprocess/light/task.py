"""A round as all its devices are told of it, and how their answers are summed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fleetledger.coordinator.core.assignments import round_assignment
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.models.network_maker import config_of
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.rounds.entries import RoundOpened
from fleetledger.coordinator.topics.rounds.state import Round
from fleetledger.device_agent.models.training import instruction_of
from fleetledger.methods.registry import training_coordinator
from fleetledger.methods.training.exchange import (
    CountedUpdate,
    FitInstruction,
    RoundConfig,
    RoundParts,
    Summing,
)
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.values import Digest


@dataclass(frozen=True, eq=False)
class RoundTask:
    """The entries and files of a round: they say all that either side of the method asks."""

    assignment: Assignment
    network: NetworkImported
    opened: RoundOpened
    files: Mapping[Digest, bytes]

    @classmethod
    def of(cls, state: State, round_: Round, read: Callable[[Digest], bytes]) -> RoundTask:
        """Return the task of an open round, with the files that `read` gives."""
        opened = round_.opened
        network, assignment = state.lineages.trained, round_assignment(state, round_)
        offers = [opened.weights, *opened.extras.values()]
        if assignment.base is not None:
            offers.append(assignment.base)
        files = {offer.digest: read(offer.digest) for offer in offers}
        return cls(assignment, network, opened, files)

    def described(self) -> dict[str, Any]:
        """Return all but the files' contents, as JSON."""
        return {
            "assignment": self.assignment.model_dump(mode="json"),
            "network": self.network.model_dump(mode="json"),
            "opened": self.opened.model_dump(mode="json"),
            "files": list(self.files),
        }

    @classmethod
    def read(cls, described: Mapping[str, Any], files: Mapping[Digest, bytes]) -> RoundTask:
        """Return the task that was described, with its files."""
        return cls(
            Assignment.model_validate(described["assignment"]),
            NetworkImported.model_validate(described["network"]),
            RoundOpened.model_validate(described["opened"]),
            files,
        )

    @cached_property
    def instruction(self) -> FitInstruction:
        """The order of the first of the cohort; those of others have another name in it."""
        return instruction_of(self.assignment, self.files.__getitem__, self.opened.cohort[0])

    @cached_property
    def looking(self) -> Assignment:
        """Return what those are asked who only look at their images."""
        order = self.instruction.round.model_copy(update={"observes": True})
        return self.assignment.model_copy(update={"round": order})

    def summing(self) -> Summing:
        """Return the empty sum; raise what the method's side raises."""
        side = training_coordinator(self.network.method)
        own = side.read_assignment(self.network.settings)
        return side.summing(own, self._config, len(self.opened.cohort))

    def parts(self, updates: Sequence[CountedUpdate]) -> RoundParts | None:
        """Return the models in all answers and their mean; None of a phase that has none."""
        side = training_coordinator(self.network.method)
        own = side.read_assignment(self.network.settings)
        return side.parts_of(own, self._config, updates)

    @property
    def _config(self) -> RoundConfig:
        return config_of(self.network, self.opened, self.files.__getitem__)
