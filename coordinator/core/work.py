"""What workers are asked: to take payloads in, to make models and means; and what they made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fleetledger.coordinator.topics.cohorts.entries import CohortEnded, CohortSummed
from fleetledger.coordinator.topics.contributions.entries import ContributionsSetAside, PartBounds
from fleetledger.coordinator.topics.lineages import entries as lineage_entries
from fleetledger.coordinator.topics.models import entries as model_entries
from fleetledger.coordinator.topics.rounds.entries import RoundOpened, WeightsAveraged
from fleetledger.coordinator.topics.rounds.state import RoundAnswered
from fleetledger.schemas.cohorts import MaskedCohort
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.values import ClassName, DeviceId, Digest


@dataclass(frozen=True)
class TakePayload:
    """Take the payload in, attached or by fetching the offer; then check and store it."""

    device: DeviceId
    contribution: Contribution
    attachment: bytes
    lineage: lineage_entries.Lineage
    round: RoundOpened | None = None
    """The round that it answers."""
    cohort: MaskedCohort | None = None
    """Given for words behind masks, which nobody checks alone."""


@dataclass(frozen=True)
class Judging:
    """What new parts of a sum are judged by, before a head is solved."""

    since: int
    """Entry from which on parts are new."""
    bounds: PartBounds
    inspects: bool = False
    """Whether all that counts is inspected as well."""


@dataclass(frozen=True)
class SolveHead:
    """Sum what counts and solve the head: the recipe of a model."""

    version: int
    lineage: lineage_entries.BackboneImported
    ledger_size: int
    """Number of entries after which the sum is as it is to be solved."""
    class_names: tuple[ClassName, ...]
    """Rows of the head, in order."""
    resolution: dict[ClassName, ClassName]
    """Every accepted name with the class that it means."""
    judging: Judging | None = None
    """None where what counts was judged before, as in a replay."""


@dataclass(frozen=True)
class ExportHead:
    """Turn a solved head into a pair of ONNX files with a manifest."""

    solved: model_entries.ModelSolved
    solved_index: int
    """Ledger index of the solve."""
    solved_ns: int
    lineage: lineage_entries.Lineage
    logit_scale: float | None = None
    """The fitted inverse temperature; None for the method's own."""
    variants: lineage_entries.VariantSet | None = None
    """Of the lineage's frozen model."""


@dataclass(frozen=True)
class PackImported:
    """Write the manifest of an imported model."""

    version: int
    imported: model_entries.ImportedFiles
    index: int
    """Ledger index of the import."""
    time_ns: int


@dataclass(frozen=True)
class AverageRound:
    """Average the answers of a round, exactly."""

    lineage: lineage_entries.NetworkImported
    opened: RoundOpened
    inputs: tuple[RoundAnswered, ...]
    older: tuple[RoundOpened, ...] = ()
    """Further rounds from whose weights answers to an asynchronous round began."""
    noise_seed: bytes = b""
    """Of the noise on the mean, where it was drawn before: in a replay."""


@dataclass(frozen=True)
class FreezeNetwork:
    """Turn the trunk of a trained network into the frozen model of the lineage that follows."""

    lineage: lineage_entries.NetworkImported
    weights: WeightsAveraged
    weights_index: int
    """Ledger index of the entry of the weights."""


@dataclass(frozen=True)
class PrepareAdapter:
    """Make the network that is an adapter on top of a solved model, and begins as that."""

    adapts: lineage_entries.Adapts
    recipe: SolveHead
    """Of the model."""
    head: Digest
    """Its head, as a blob."""
    logit_scale: float | None
    """The fitted inverse temperature; None for the method's own."""
    settings: dict[str, Any]
    """The operator's, of method `rounds`."""


@dataclass(frozen=True)
class MemberWords:
    """What a member of a cohort gave behind masks."""

    device: DeviceId
    payload: Digest


@dataclass(frozen=True)
class SumCohort:
    """Take the masks off the sum of a cohort, and check it."""

    cohort: MaskedCohort
    lineage: lineage_entries.Lineage
    words: tuple[MemberWords, ...]
    """Of the members that are in the sum."""
    silent: tuple[DeviceId, ...]
    seeds: dict[DeviceId, dict[DeviceId, str]]
    """Seeds that members had in common with silent ones, by who told them."""
    shares: dict[DeviceId, dict[DeviceId, str]]
    """Shares of own masks, by who told them."""
    undone: tuple[Digest, ...] = ()
    """Sums of the cohorts out of which this one takes something."""
    round: RoundOpened | None = None
    """The round that it answers."""


Work = (
    SumCohort
    | SolveHead
    | ExportHead
    | PackImported
    | AverageRound
    | FreezeNetwork
    | PrepareAdapter
)
"""What workers are asked."""


@dataclass(frozen=True)
class RoundNotAveraged:
    """A worker could not average a round's answers."""

    number: int
    reason: str


@dataclass(frozen=True)
class AdapterNotPrepared:
    """A worker could not make one."""

    reason: str


WorkResult = (
    CohortSummed
    | CohortEnded
    | model_entries.ModelSolved
    | ContributionsSetAside
    | model_entries.ModelExported
    | model_entries.ModelFailed
    | WeightsAveraged
    | lineage_entries.BackboneImported
    | lineage_entries.NetworkImported
    | RoundNotAveraged
    | AdapterNotPrepared
)
"""The entry of what a worker made, whose files are in the blob store, or why nothing was made.

`ContributionsSetAside` says that no head was solved; `BackboneImported` is the frozen model of the
lineage that follows; `NetworkImported` is an adapter that nobody has trained.
"""
