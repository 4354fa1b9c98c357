"""Maker of models: sums the contributions exactly, solves the head, exports it.

The sum is kept between solves and over starts, and only what came or went is added or subtracted:
sums are exact, so the result is the same as adding everything anew.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleetledger.coordinator.core import work
from fleetledger.coordinator.core.phrases import count_of
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.models.adapters import adapter_of
from fleetledger.coordinator.models.cohort_sum import ended, summed_statistics
from fleetledger.coordinator.models.held_parts import HeldParts
from fleetledger.coordinator.models.inspection import harmful_parts, seed_of
from fleetledger.coordinator.models.job_runner import Finished
from fleetledger.coordinator.models.kept_sums import KeptSum, KeptSums
from fleetledger.coordinator.models.model_package import facts_of, handed_over, packed
from fleetledger.coordinator.models.network_maker import NetworkMaker
from fleetledger.coordinator.models.outliers import Judgement, SummedParts, disproved, judged
from fleetledger.coordinator.models.variants import variants_of
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.contributions.entries import ContributionsSetAside
from fleetledger.coordinator.topics.lineages.entries import BackboneImported, NetworkImported
from fleetledger.coordinator.topics.models.entries import ModelSolved
from fleetledger.coordinator.topics.models.kinds import not_made, not_solved
from fleetledger.export.head import RowsHead
from fleetledger.export.package import Lineage, pack_model
from fleetledger.learning.errors import LearningError
from fleetledger.learning.numerics.blas import platform_fingerprint
from fleetledger.methods.registry import statistics_coordinator
from fleetledger.methods.statistics.sides import (
    AnyStatisticsCoordinator,
    ExactAggregate,
    StatisticsAssignment,
)
from fleetledger.methods.statistics.solved_heads import decode_head, encode_head
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.runtime.progress import working_at
from fleetledger.schemas.values import Digest

log = logging.getLogger("coordinator.models.model_maker")

_FEW_BYTES = 1 << 21
"""Payloads whose sums stay in memory while parts are judged; sums are up to 32 times as large."""


@dataclass
class _Sum:
    """The exact sum of some contributions of one lineage, as they were held at a size."""

    lineage: Digest
    total: ExactAggregate
    held: HeldParts
    added: dict[int, tuple[Digest, int]]
    """Payload and stage of what is in the sum, by entry."""


class _Parts:
    """Aggregates of contributions; a solve asks for those of small payloads several times."""

    def __init__(self, side: AnyStatisticsCoordinator, assignment: StatisticsAssignment) -> None:
        self.side, self.assignment = side, assignment
        self._few: dict[tuple[Digest, int], ExactAggregate] = {}
        self._room = _FEW_BYTES

    def aggregate(
        self, given: tuple[Digest, int], read: Callable[[Digest], bytes]
    ) -> ExactAggregate:
        """Return the aggregate of a payload that was made in a stage."""
        if given in self._few:
            return self._few[given]
        data = read(given[0])
        statistics = self.side.read(self.assignment, data)
        found = self.side.aggregate_type.of(self.assignment, statistics, given[1])
        self._room -= len(data)
        if self._room >= 0:
            self._few[given] = found
        return found


class ModelMaker:
    """Solves and exports, on the job runner's model thread."""

    def __init__(self, home: Path, store: BlobStore, sums: KeptSums | None = None) -> None:
        self.networks = NetworkMaker(home, store)
        """Does the same for networks that are trained in rounds."""
        self._ledger = ledger_path(home)
        self._store = store
        self._sum: _Sum | None = None
        self._sums = sums or KeptSums(self._ledger, None)

    def make(self, request: work.Work) -> Finished:
        """Return what is asked for, or why there is none."""
        working_at(_named(request))
        match request:
            case work.SumCohort():
                return self.sum_cohort(request)
            case work.SolveHead():
                return self.solve(request)
            case work.AverageRound():
                return self.networks.average(request)
            case work.FreezeNetwork():
                return self.networks.freeze(request)
            case work.PrepareAdapter():
                return self.adapt(request)
            case _:
                return self.export(request)

    def sum_cohort(self, request: work.SumCohort) -> Finished:
        """Return the sum of a cohort without masks, or why it is none."""
        try:
            with self._blobs() as blobs:
                if request.round is not None:
                    return self.networks.sum_cohort(request, blobs)
                body, payload = summed_statistics(request, blobs.get)
                return Finished(body, blobs.stage([payload]))
        except (FleetledgerError, LearningError) as error:
            return Finished(ended(request, error))

    def solve(self, request: work.SolveHead) -> Finished:
        """Return the solved head, or why there is none."""
        try:
            with self._blobs() as blobs:
                return self._judged_or_solved(request, blobs)
        except (FleetledgerError, LearningError) as error:
            self._sum = None
            failed = not_solved(str(error), request.ledger_size, request.class_names)
            return Finished(failed)

    def export(self, request: work.ExportHead | work.PackImported) -> Finished:
        """Return the exported model, or why there is none; an imported one has its files."""
        if isinstance(request, work.PackImported):
            return self._pack(request)
        if isinstance(request.lineage, NetworkImported):
            return self.networks.export(request, request.lineage)
        try:
            with self._blobs() as blobs:
                return self._export(request, blobs)
        except (FleetledgerError, LearningError) as error:
            return Finished(not_made(str(error), solved=request.solved))

    def adapt(self, request: work.PrepareAdapter) -> Finished:
        """Return an adapter on top of a solved model, or why there is none."""
        try:
            with self._blobs() as blobs:
                return self._adapt(request, blobs)
        except (FleetledgerError, LearningError) as error:
            return Finished(work.AdapterNotPrepared(str(error)))

    def _adapt(self, request: work.PrepareAdapter, blobs: Blobs) -> Finished:
        recipe = request.recipe
        side = statistics_coordinator(recipe.lineage.method)
        assignment = side.read_assignment(recipe.lineage.settings)
        total = self._brought_up(recipe, _Parts(side, assignment), blobs).total
        moments = side.feature_moments(assignment, total.renamed(recipe.resolution))
        shape = (len(recipe.class_names), recipe.lineage.feature_width)
        weights = decode_head(blobs.get(request.head), shape).weights
        scale = request.logit_scale or assignment.settings.logit_scale
        network, files = adapter_of(request, weights, moments, scale)
        return Finished(network, blobs.stage(files))

    def _pack(self, request: work.PackImported) -> Finished:
        try:
            with self._blobs() as blobs:
                return packed(request, blobs)
        except FleetledgerError as error:
            return Finished(not_made(str(error)))

    def parts_of(self, request: work.SolveHead, blobs: Blobs) -> SummedParts:
        """Return the sum that a request asks for, with what it is made of."""
        side = statistics_coordinator(request.lineage.method)
        assignment = side.read_assignment(request.lineage.settings)
        parts = _Parts(side, assignment)
        summed = self._brought_up(request, parts, blobs)
        counted, names = summed.held.counted, request.resolution

        def part(index: int) -> ExactAggregate:
            given = counted[index].payload, counted[index].key.stage
            return parts.aggregate(given, blobs.get).renamed(names)

        total = summed.total.renamed(names)
        return SummedParts(side, assignment, summed.lineage, names, counted, part, total)

    def _judged_or_solved(self, request: work.SolveHead, blobs: Blobs) -> Finished:
        """Return what is to be set aside before a head is solved, or the head."""
        summed, judging = self.parts_of(request, blobs), request.judging
        if judging is not None and (verdict := judged(summed, judging)):
            return Finished(_set_aside(request, judging, verdict))
        if judging is not None and judging.inspects:
            seed = seed_of(blobs.ledger, request.ledger_size)
            if parts := harmful_parts(summed, seed):
                body = _set_aside(request, judging, Judgement(parts))
                return Finished(body.model_copy(update={"inspected": True}))
        try:
            solved, weights = self._solve(request, summed)
        except (FleetledgerError, LearningError):
            parts, vector = disproved(summed)
            if not parts or judging is None:
                raise
            body = _set_aside(request, judging, Judgement(parts), Digest.of(vector))
            return Finished(body, blobs.stage([vector]))
        return Finished(solved, blobs.stage([weights]))

    def _solve(self, request: work.SolveHead, summed: SummedParts) -> tuple[ModelSolved, bytes]:
        began = time.perf_counter()
        merged, counted = summed.total, summed.counted
        head = summed.side.solve(summed.assignment, merged, request.class_names)
        for remark in head.remarks:
            log.warning("model %d: %s", request.version, remark)
        weights = encode_head(head)
        solved = ModelSolved(
            version=request.version,
            lineage=request.lineage.frozen.digest,
            ledger_size=request.ledger_size,
            contributions=counted.sum_of(summed.lineage).parts,
            class_names=request.class_names,
            aggregate=merged.digest,
            head=Digest.of(weights),
            method=request.lineage.method,
            fingerprint=platform_fingerprint(),
            seconds=time.perf_counter() - began,
            remarks=(*head.remarks, *_of_set_aside(summed)),
        )
        return solved, weights

    def _brought_up(self, request: work.SolveHead, parts: _Parts, blobs: Blobs) -> _Sum:
        """Return the sum that the request asks for, starting from the sum of the last solve."""
        lineage, kept = request.lineage.frozen.digest, self._sum
        if kept is None or kept.lineage != lineage or kept.held.size > request.ledger_size:
            kept = self._of_before(request, blobs.ledger) or _Sum(
                lineage, parts.side.aggregate_type.empty(parts.assignment), HeldParts(), {}
            )
        self._sum = None  # a sum that was not brought up is none

        def read(payload: Digest) -> bytes:
            data = blobs.get(payload)
            self._sums.moved(len(data))
            return data

        for index in sorted(kept.held.follow(blobs.ledger, request.ledger_size)):
            was, item = kept.added.pop(index, None), kept.held.counted.by_index.get(index)
            now = None
            if item is not None and kept.held.counted.is_summed(index, lineage):
                now = kept.added[index] = item.payload, item.key.stage
            if was == now:
                continue
            if was is not None:
                kept.total = kept.total - parts.aggregate(was, read)
            if now is not None:
                kept.total += parts.aggregate(now, read)
        self._sum = kept
        kept_sum = KeptSum(request.ledger_size, kept.total)
        self._sums.keep(blobs.ledger, request.lineage, kept_sum)
        return kept

    def _of_before(self, request: work.SolveHead, ledger: LedgerReader) -> _Sum | None:
        """Return the sum that an earlier run kept, if there is one."""
        found = self._sums.newest(ledger, request.lineage, request.ledger_size)
        if found is None:
            return None
        lineage, held = request.lineage.frozen.digest, HeldParts()
        held.follow(ledger, found.size)
        counted = held.counted
        inside = (index for index in counted if counted.is_summed(index, lineage))
        added = {i: (counted[i].payload, counted[i].key.stage) for i in inside}
        return _Sum(lineage, found.total, held, added)

    def _export(self, request: work.ExportHead, blobs: Blobs) -> Finished:
        solved, backbone = request.solved, request.lineage
        assert isinstance(backbone, BackboneImported)  # whole networks have no head of ours
        side = statistics_coordinator(backbone.method)
        assignment = side.read_assignment(backbone.settings)
        shape = (len(solved.class_names), backbone.feature_width)
        stored = decode_head(blobs.get(solved.head), shape)
        lineage = Lineage(
            frozen=blobs.get(backbone.frozen.digest),
            golden=blobs.get(backbone.golden.digest),
            preprocessing=backbone.preprocessing,
            variants=variants_of(request.variants, blobs.get),
        )
        head = RowsHead(stored.weights, stored.novelty)
        facts = facts_of(request, assignment.settings.logit_scale)
        return handed_over(pack_model(lineage, facts, head), blobs, request.variants)

    @contextmanager
    def _blobs(self) -> Iterator[Blobs]:
        with LedgerReader.open_read_only(self._ledger) as ledger:
            yield Blobs(ledger, self._store)


def _set_aside(
    request: work.SolveHead, judging: work.Judging, verdict: Judgement, vector: Digest | None = None
) -> ContributionsSetAside:
    return ContributionsSetAside(
        lineage=request.lineage.frozen.digest,
        ledger_size=request.ledger_size,
        since=judging.since,
        bounds=judging.bounds,
        set_aside=verdict.set_aside,
        again=verdict.again,
        vector=vector,
    )


def _of_set_aside(summed: SummedParts) -> tuple[str, ...]:
    """Return a remark on how much is set aside; which parts these are, entries before say."""
    counted = summed.counted
    aside = [i for i in counted.set_aside if counted[i].lineage == summed.lineage]
    if not aside:
        return ()
    devices = count_of(len({counted[i].device for i in aside}), "device")
    return (f"{count_of(len(aside), 'contribution')} of {devices} set aside",)


def _named(request: work.Work) -> str:
    """Return what a job makes, in words."""
    match request:
        case work.SumCohort(cohort=cohort):
            return f"the sum of cohort {cohort.number}"
        case work.SolveHead(version=version):
            return f"the head of model {version}"
        case work.ExportHead(solved=solved):
            return f"the files of model {solved.version}"
        case work.PackImported(version=version):
            return f"the manifest of model {version}"
        case work.AverageRound(opened=opened):
            return f"the mean of round {opened.number}"
        case work.FreezeNetwork():
            return "the frozen model of a trained network"
        case work.PrepareAdapter():
            return "an adapter"
