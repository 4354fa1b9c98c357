"""Remaker of recorded results, by the coordinator's own makers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from fleetledger.coordinator.core.work import RoundNotAveraged
from fleetledger.coordinator.errors import BlobError, BlobPrunedError
from fleetledger.coordinator.ledger.blobs import Blobs
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.models.held_parts import HeldParts
from fleetledger.coordinator.models.inspection import seed_of
from fleetledger.coordinator.models.job_runner import Finished
from fleetledger.coordinator.models.model_maker import ModelMaker
from fleetledger.coordinator.models.network_maker import fingerprint_of, trains_here
from fleetledger.coordinator.replay import comparison, recipes
from fleetledger.coordinator.replay.overlay_store import KeepingStore
from fleetledger.coordinator.replay.set_aside import inspected_again, judged_again, proven
from fleetledger.coordinator.reports.reports import ReplayedResult, ReplayState
from fleetledger.coordinator.topics.cohorts.entries import CohortEnded, CohortSummed
from fleetledger.coordinator.topics.models.entries import ModelFailed, ModelSolved
from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from fleetledger.learning.errors import LearningError
from fleetledger.methods.registry import training_coordinator
from fleetledger.methods.requirements import unable
from fleetledger.methods.statistics.solved_heads import decode_head
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.runtime.pip_command import pip_install
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.values import Digest

_Made = recipes.SummedRecipe | recipes.JudgedRecipe | recipes.SolvedRecipe | recipes.AveragedRecipe
_Decode = Callable[[bytes], Sequence[comparison.Arrays]]


@dataclass(frozen=True)
class _Pair:
    """A result with another digest than was recorded."""

    what: str
    recorded: Digest
    made: Digest
    elsewhere: str
    """How the platform differs that recorded it; empty where it does not."""
    tolerance: float


class Remaking:
    """Makes again what entries record; reads the home, and writes nothing into it."""

    def __init__(self, home: Path, ledger: LedgerReader, store: KeepingStore) -> None:
        self._store = store
        self._blobs = Blobs(ledger, store)
        self._held = HeldParts()
        self._maker = ModelMaker(home, store)

    def outcome(self, recipe: recipes.Recipe) -> ReplayedResult:
        """Carry a recipe out and compare what comes of it."""
        state, detail = self._made(recipe)
        self._store.forget()
        return ReplayedResult(index=recipe.index, what=_title(recipe), state=state, detail=detail)

    def _made(self, recipe: recipes.Recipe) -> tuple[ReplayState, str]:
        if isinstance(recipe, recipes.ImportedRecipe):
            return self._imported(recipe)
        if isinstance(recipe, recipes.TakenRecipe):
            return self._taken(recipe)
        found = self._lacking(recipe)
        if found is not None:
            return found
        lineage = recipe.request.lineage
        if lacks := unable(lineage.method, lineage.requires, "replay again"):
            return "cannot be made again", lacks
        if isinstance(recipe, recipes.SummedRecipe):
            return self._summed(recipe, self._maker.sum_cohort(recipe.request))
        if isinstance(recipe, recipes.JudgedRecipe):
            return self._judged(recipe)
        if isinstance(recipe, recipes.SolvedRecipe):
            return self._solved(recipe, self._maker.solve(recipe.request))
        side = training_coordinator(recipe.request.lineage.method)
        if trains_here(side.read_assignment(recipe.request.lineage.settings)) and (
            find_spec("torch") is None
        ):
            why = f"it needs torch at the coordinator; {pip_install('train')}"
            return "cannot be made again", why
        return self._averaged(recipe, self._maker.networks.average(recipe.request))

    def _judged(self, recipe: recipes.JudgedRecipe) -> tuple[ReplayState, str]:
        """Judge the same parts again, by the sum or by the vector that was recorded."""
        recorded = recipe.recorded
        try:
            summed = self._maker.parts_of(recipe.request, self._blobs)
            if recorded.vector is not None:
                return proven(summed, recorded, self._blobs.get(recorded.vector))
            if recorded.inspected:
                seed = seed_of(self._blobs.ledger, recorded.ledger_size)
                return inspected_again(summed, recorded, seed)
            return judged_again(summed, recorded)
        except (FleetledgerError, LearningError) as error:
            return "differs", str(error)

    def _lacking(self, recipe: _Made) -> tuple[ReplayState, str] | None:
        """Return what comes of it where a blob was deleted, or is not what it was."""
        pruned: list[str] = []
        for digest, source in self._needed(recipe):
            try:
                self._blobs.check(digest)
            except BlobPrunedError:
                pruned.append(f"blob {digest} ({source})")
            except BlobError as error:
                return "differs", f"{error} ({source})"
        if pruned:
            return "cannot be made again", f"deleted by retention: {'; '.join(pruned)}"
        return None

    def _needed(self, recipe: _Made) -> Iterator[tuple[Digest, str]]:
        """Yield every blob that a recipe needs, with whose it is."""
        if isinstance(recipe, recipes.JudgedRecipe | recipes.SolvedRecipe):
            size, lineage = recipe.request.ledger_size, recipe.request.lineage.digest
            if size < self._held.size:
                self._held = HeldParts()
            self._held.follow(self._blobs.ledger, size)
            for index, held in self._held.counted.items():
                if self._held.counted.is_summed(index, lineage):
                    yield held.payload, f"contribution of entry {index}"
            return
        if isinstance(recipe, recipes.SummedRecipe):
            for given in recipe.request.words:
                yield given.payload, f"words of {given.device}"
            return
        for item in recipe.request.inputs:
            yield item.payload, f"contribution of entry {item.index}"
        opened = recipe.request.opened
        yield opened.weights.digest, f"weights that round {opened.number} began with"
        for name, offer in opened.extras.items():
            yield offer.digest, f"{name} of round {opened.number}"

    def _solved(self, recipe: recipes.SolvedRecipe, finished: Finished) -> tuple[ReplayState, str]:
        made, recorded = finished.happening, recipe.recorded
        if isinstance(made, ModelFailed):
            return "differs", f"could not be made: {made.reason}"
        assert isinstance(made, ModelSolved)
        faults = comparison.joined(
            comparison.unlike("aggregate", recorded.aggregate, made.aggregate),
            comparison.unlike("rows", recorded.class_names, made.class_names),
        )
        elsewhere = comparison.other_platform(recorded.fingerprint, made.fingerprint)
        if faults:
            return "differs", faults
        if made.head == recorded.head:
            return self._equal(made.aggregate, {"head": made.head})
        shape = (len(made.class_names), recipe.request.lineage.feature_width)

        pair = _Pair("head", recorded.head, made.head, elsewhere, comparison.SOLVED)
        return self._compared(pair, finished, lambda data: decode_head(data, shape).tensors)

    def _summed(self, recipe: recipes.SummedRecipe, finished: Finished) -> tuple[ReplayState, str]:
        made, recorded = finished.happening, recipe.recorded
        if isinstance(made, CohortEnded):
            return "differs", f"could not be made: {made.reason}"
        assert isinstance(made, CohortSummed)
        faults = comparison.joined(
            comparison.unlike("sum", recorded.payload, made.payload),
            comparison.unlike("samples", recorded.samples, made.samples),
            comparison.unlike("members", recorded.members, made.members),
        )
        if faults:
            return "differs", faults
        return self._equal(None, {"sum": made.payload})

    def _averaged(
        self, recipe: recipes.AveragedRecipe, finished: Finished
    ) -> tuple[ReplayState, str]:
        made, recorded = finished.happening, recipe.recorded
        if isinstance(made, RoundNotAveraged):
            return "differs", f"could not be made: {made.reason}"
        assert isinstance(made, WeightsAveraged)
        faults = comparison.joined(
            comparison.unlike("aggregate", recorded.aggregate, made.aggregate),
            comparison.unlike("samples", recorded.samples, made.samples),
            comparison.unlike("rows", recorded.class_names, made.class_names),
            comparison.unlike("files", _digests(recorded.extras), _digests(made.extras)),
        )
        if faults:
            return "differs", faults
        if made.weights == recorded.weights:
            files = {"weights": made.weights.digest, **_digests(made.extras)}
            return self._equal(made.aggregate, files)
        side = training_coordinator(recipe.request.lineage.method)
        own = side.read_assignment(recipe.request.lineage.settings)
        tolerance = comparison.TRAINED if trains_here(own) else comparison.SOLVED
        elsewhere = comparison.other_platform(recorded.fingerprint, fingerprint_of(own))
        weights = (recorded.weights.digest, made.weights.digest)
        pair = _Pair("weights", *weights, elsewhere, tolerance)
        return self._compared(pair, finished, lambda data: (side.network_of(own, data)[1],))

    def _imported(self, recipe: recipes.ImportedRecipe) -> tuple[ReplayState, str]:
        """Look whether the files of a model from elsewhere are those that the entry names."""
        recorded = recipe.recorded
        found = {
            "frozen part": recorded.frozen.digest,
            "head": recorded.head.digest,
            "golden batch": recorded.golden.digest,
            "golden scores": recorded.golden_scores.digest,
        }
        state, said = self._equal(None, found)
        return state, f"imported from {recorded.name}, and held by digest: {said}"

    def _taken(self, recipe: recipes.TakenRecipe) -> tuple[ReplayState, str]:
        """Compare a network that was taken as a model with what the entry says that gave it."""
        fault = comparison.unlike("head", recipe.weights, recipe.recorded.head)
        if fault:
            return "differs", fault
        source = f"weights of entry {recipe.recorded.weights_index}"
        return self._equal(None, {source: recipe.weights})

    def _equal(
        self, aggregate: Digest | None, made: Mapping[str, Digest]
    ) -> tuple[ReplayState, str]:
        """Name what is equal, and look whether what is stored of it is still that."""
        self._store.forget()  # else what was made just now would stand in for it
        said = ", ".join(f"{name} {digest.short}" for name, digest in made.items())
        if aggregate is not None:
            said = f"aggregate {aggregate.short}, {said}"
        for name, digest in made.items():
            try:
                self._blobs.check(digest)
            except BlobPrunedError:
                said += f"; what was stored as {name} is deleted by retention"
            except BlobError as error:
                return "differs", f"what is stored as {name} is no longer what was made: {error}"
        return "equal", said

    def _compared(
        self, pair: _Pair, finished: Finished, decoded: _Decode
    ) -> tuple[ReplayState, str]:
        """Return what comes of a result with another digest than was recorded."""
        unequal = f"{pair.what} should be {pair.recorded}, made {pair.made}"
        if not pair.elsewhere:
            return "differs", f"{unequal}, on a platform with the same fingerprint"
        before = comparison.stored(self._blobs, pair.recorded)
        after = finished.small_blobs.get(pair.made) or self._store.made(pair.made)
        if isinstance(before, str):
            pruned = not self._blobs.has(pair.recorded)
            return ("cannot be made again" if pruned else "differs"), f"{unequal}; {before}"
        assert after is not None  # of another digest than what is stored, so it was put in
        try:
            apart = comparison.distance(decoded(before), decoded(after))
        except (FleetledgerError, LearningError) as error:
            return "differs", f"{unequal}; {error}"
        said = (
            f"{pair.what} on another platform ({pair.elsewhere}): {apart:.2g} of its largest value "
            f"apart, tolerance {pair.tolerance:g}; the aggregate is equal"
        )
        return ("within tolerance" if apart <= pair.tolerance else "differs"), said


def _title(recipe: recipes.Recipe) -> str:
    if isinstance(recipe, recipes.AveragedRecipe):
        return f"round {recipe.recorded.number}, phase {recipe.recorded.phase}"
    if isinstance(recipe, recipes.JudgedRecipe):
        return f"parts set aside by entry {recipe.index}"
    if isinstance(recipe, recipes.SummedRecipe):
        return f"sum of cohort {recipe.recorded.number}"
    return f"model {recipe.recorded.version}"


def _digests(offers: Mapping[str, Offer]) -> dict[str, Digest]:
    return {name: offer.digest for name, offer in sorted(offers.items())}
