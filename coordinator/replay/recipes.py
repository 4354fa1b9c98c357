"""Entries into recipes: what the makers were asked when a model was solved, or a round averaged.

Nothing is decided here again. A mean names its inputs, a head the size of the ledger whose sum it
is of, and what else a request needs (the lineage, the round's order, which names mean one class)
stands in entries before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass

from fleetledger.coordinator.core import work
from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.errors import CommandError, LedgerError, UnknownClassError
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.models.held_parts import HeldParts
from fleetledger.coordinator.replay.cohort_fold import FOLDED, CohortFold
from fleetledger.coordinator.topics.classes.entries import CLASSES
from fleetledger.coordinator.topics.classes.state import ClassRegistry
from fleetledger.coordinator.topics.cohorts.entries import CohortSummed
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    ContributionsSetAside,
)
from fleetledger.coordinator.topics.lineages.entries import (
    BackboneImported,
    Lineage,
    NetworkImported,
)
from fleetledger.coordinator.topics.models.entries import ModelImported, ModelSolved
from fleetledger.coordinator.topics.rounds.entries import RoundClosed, RoundOpened, WeightsAveraged
from fleetledger.coordinator.topics.rounds.state import RoundAnswered
from fleetledger.runtime.count_words import agree, count_of
from fleetledger.schemas.values import ClassName, Digest


@dataclass(frozen=True)
class SolvedRecipe:
    """A head that was solved from a sum."""

    index: int
    recorded: ModelSolved
    request: work.SolveHead


@dataclass(frozen=True)
class AveragedRecipe:
    """What a round's answers became."""

    index: int
    recorded: WeightsAveraged
    request: work.AverageRound


@dataclass(frozen=True)
class TakenRecipe:
    """A network that was taken as a model: what a round gave, or imported as it is."""

    index: int
    recorded: ModelSolved
    weights: Digest
    """By the entry that gave them."""


@dataclass(frozen=True)
class ImportedRecipe:
    """A model that the operator imported: nothing made it here, and its files are what it is."""

    index: int
    recorded: ModelImported


@dataclass(frozen=True)
class JudgedRecipe:
    """Parts that were set aside, or that count again."""

    index: int
    recorded: ContributionsSetAside
    request: work.SolveHead


@dataclass(frozen=True)
class SummedRecipe:
    """The sum of a cohort, of which the masks were taken off."""

    index: int
    recorded: CohortSummed
    request: work.SumCohort


Recipe = SummedRecipe | JudgedRecipe | SolvedRecipe | AveragedRecipe | TakenRecipe | ImportedRecipe


def recipes(entries: Iterable[Entry]) -> Iterator[Recipe]:
    """Yield what was made by these entries, from the first one of a ledger on, in their order.

    Raises `LedgerError` for an entry whose inputs are not what it needs.
    """
    told = _Told()
    for entry in entries:
        if entry.kind in _KINDS:
            body = read_entry(entry.kind, entry.body)
            recipe = told.recipe(entry.index, body)
            if recipe is not None:
                yield recipe
            told.apply(entry.index, body)
            told.cohorts.apply(entry, body)
        told.unfolded.append(entry)


_OF_CLASSES: set[type[EntryBody]] = {kind.body for kind in CLASSES.kinds}
_KINDS = {
    kind.kind
    for kind in (
        BackboneImported,
        NetworkImported,
        ContributionAccepted,
        ContributionsSetAside,
        RoundClosed,
        RoundOpened,
        WeightsAveraged,
        ModelSolved,
        ModelImported,
    )
} | {kind.kind for kind in (*_OF_CLASSES, *FOLDED)}


class _Told:
    """What the entries so far say that recipes are made of."""

    def __init__(self) -> None:
        self._lineages: dict[Digest, Lineage] = {}
        self._given: dict[int, ContributionAccepted] = {}
        self._opened: dict[int, RoundOpened] = {}
        self._summed: dict[int, CohortSummed] = {}
        self.cohorts = CohortFold()
        self._fewer: dict[int, int] = {}
        """Answers to rounds that count as fewer samples than they say."""
        self._staleness: dict[int, int] = {}
        """Answers that began from older weights, with the age of these."""
        self._weights: dict[int, Digest] = {}
        """Of networks, by the entry that gave them."""
        self._held = HeldParts()
        self.unfolded: deque[Entry] = deque()
        """Entries after those of which the newest head is."""
        self._registries = [ClassRegistry()]
        """As it was after each change of it, oldest first."""

    def apply(self, index: int, body: EntryBody) -> None:
        """Take in one entry."""
        match body:
            case BackboneImported():
                self._lineages[body.digest] = body
            case NetworkImported():
                self._lineages[body.digest] = body
                self._weights[index] = body.weights.digest
            case ContributionAccepted():
                self._given[index] = body
            case CohortSummed():
                self._summed[index] = body
            case RoundOpened():
                self._opened[body.number] = body
            case RoundClosed():
                self._fewer.update(body.weights)
                self._staleness.update(body.staleness)
            case WeightsAveraged():
                self._weights[index] = body.weights.digest
            case _ if type(body) in _OF_CLASSES:
                self._registries.append(_after(self._registries[-1], body, index))

    def recipe(self, index: int, body: EntryBody) -> Recipe | None:
        """Return how what an entry records was made, if it records that something was."""
        if isinstance(body, WeightsAveraged):
            return AveragedRecipe(index, body, self._average(index, body))
        if isinstance(body, ModelImported):
            return ImportedRecipe(index, body)
        if isinstance(body, CohortSummed):
            opened = None if body.round is None else self._opened.get(body.round)
            request = self.cohorts.request(index, body, self._lineage(index, body.lineage), opened)
            return SummedRecipe(index, body, request)
        if isinstance(body, ContributionsSetAside):
            return JudgedRecipe(index, body, self._judge(index, body))
        if not isinstance(body, ModelSolved):
            return None
        lineage = self._lineage(index, body.lineage)
        if isinstance(lineage, BackboneImported):
            return SolvedRecipe(index, body, self._solve(index, body, lineage))
        weights = self._weights.get(-1 if body.weights_index is None else body.weights_index)
        if weights is None:
            raise LedgerError(f"entry {index}: it names no weights of a network")
        return TakenRecipe(index, body, weights)

    def _solve(self, index: int, body: ModelSolved, lineage: BackboneImported) -> work.SolveHead:
        self._fold(index, body.ledger_size)
        summed = self._held.counted.sum_of(lineage.digest)
        if summed.parts != body.contributions:
            raise LedgerError(
                f"entry {index}: it is of {count_of(body.contributions, 'contribution')}, and "
                f"{count_of(body.ledger_size, 'entry', 'entries')} "
                f"{agree(body.ledger_size, 'holds', 'hold')} {summed.parts}"
            )
        return work.SolveHead(
            version=body.version,
            lineage=lineage,
            ledger_size=body.ledger_size,
            class_names=body.class_names,
            resolution=self._resolution(body, set(summed.names)),
        )

    def _judge(self, index: int, body: ContributionsSetAside) -> work.SolveHead:
        lineage = self._lineage(index, body.lineage)
        if not isinstance(lineage, BackboneImported):
            raise LedgerError(f"entry {index}: its lineage {body.lineage.short} has no sums")
        self._fold(index, body.ledger_size)
        return work.SolveHead(
            version=0,
            lineage=lineage,
            ledger_size=body.ledger_size,
            class_names=(),
            resolution=self._registries[-1].resolution(),
            judging=work.Judging(body.since, body.bounds),
        )

    def _fold(self, index: int, size: int) -> None:
        """Fold the entries up to a size that an entry names."""
        if not self._held.size <= size <= index:
            raise LedgerError(
                f"entry {index}: it is of {count_of(size, 'entry', 'entries')}, and has to be of "
                f"{self._held.size} to "
                f"{index}"
            )
        while self.unfolded and self.unfolded[0].index < size:
            self._held.apply(self.unfolded.popleft())

    def _average(self, index: int, body: WeightsAveraged) -> work.AverageRound:
        lineage, opened = self._lineage(index, body.lineage), self._opened.get(body.number)
        if not isinstance(lineage, NetworkImported) or opened is None:
            raise LedgerError(f"entry {index}: round {body.number} of a network was never opened")
        inputs = tuple(self._answer(index, number) for number in body.inputs)
        began = {item.began for item in inputs} - {body.number}
        older = tuple(self._opened[number] for number in sorted(began))
        seed = bytes.fromhex(body.noise_seed)
        return work.AverageRound(lineage, opened, inputs, older, seed)

    def _answer(self, index: int, number: int) -> RoundAnswered:
        """Return an answer as it counts in the mean of entry `index`."""
        summed = self._summed.get(number)
        if summed is not None and summed.round in self._opened:
            members = len(summed.members)
            return RoundAnswered(
                number, summed.payload, summed.weight, summed.round, members=members
            )
        part = self._contribution(index, number).part
        began = 0 if part.round is None else part.round.number
        if began not in self._opened:
            raise LedgerError(f"entry {index}: input {number} is an answer to no round before it")
        return RoundAnswered(
            number,
            part.payload,
            self._fewer.get(number, sum(part.samples.values())),
            began,
            self._staleness.get(number, 0),
        )

    def _lineage(self, index: int, digest: Digest) -> Lineage:
        lineage = self._lineages.get(digest)
        if lineage is None:
            raise LedgerError(f"entry {index}: its lineage {digest.short} was never imported")
        return lineage

    def _contribution(self, index: int, number: int) -> ContributionAccepted:
        given = self._given.get(number)
        if given is None:
            raise LedgerError(f"entry {index}: its input {number} is no contribution before it")
        return given

    def _resolution(self, body: ModelSolved, learned: set[ClassName]) -> dict[ClassName, ClassName]:
        """Return which names meant one class when the head was asked for.

        A class may have been renamed while it was solved, so the newest registry counts that leads
        to the head's rows.
        """
        for registry in reversed(self._registries):
            if _rows(registry, learned) == body.class_names:
                return registry.resolution()
        return self._registries[-1].resolution()


def _after(before: ClassRegistry, body: EntryBody, index: int) -> ClassRegistry:
    after = deepcopy(before)
    dict(CLASSES.on(after))[type(body)](body, EntryContext(index))
    return after


def _rows(registry: ClassRegistry, learned: set[ClassName]) -> tuple[ClassName, ...] | None:
    """Return the rows of a head that learned these names; None where one was not known yet."""
    try:
        known = {registry.resolve(name) for name in learned}
    except UnknownClassError:
        return None
    return tuple(name for name in registry.names if name in known)


def everything(ledger: LedgerReader, until: int | None = None) -> list[Recipe]:
    """Return what was made up to an entry, that entry included; raise `CommandError`."""
    if until is not None and until >= ledger.size:
        raise CommandError(
            f"--to: {until} is not in the ledger; it holds "
            f"{count_of(ledger.size, 'entry', 'entries')}"
        )
    return list(recipes(ledger.entries(0, None if until is None else until + 1)))


def newest(made: list[Recipe]) -> list[Recipe]:
    """Return what was made last, with what it was taken from; raise `CommandError` for nothing."""
    if not made:
        raise CommandError("ledger: no model was solved and no round averaged by then")
    last = next((one for one in reversed(made) if not isinstance(one, SummedRecipe)), made[-1])
    return _with_its_round(last, made)


def version(made: list[Recipe], wanted: int) -> list[Recipe]:
    """Return one version, with what it was taken from; raise `CommandError` for none."""
    for recipe in made:
        if (
            not isinstance(recipe, AveragedRecipe | JudgedRecipe | SummedRecipe)
            and recipe.recorded.version == wanted
        ):
            return _with_its_round(recipe, made)
    raise CommandError(f"--version: {wanted} is not a model; see `fleetledger model list`")


def _with_its_round(recipe: Recipe, made: Iterable[Recipe]) -> list[Recipe]:
    """Return a model and, where a round gave it, that round before it."""
    if not isinstance(recipe, TakenRecipe):
        return [recipe]
    return [*(item for item in made if item.index == recipe.recorded.weights_index), recipe]
