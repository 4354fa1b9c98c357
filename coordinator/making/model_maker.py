"""Makes models: sums the contributions exactly, solves the head, exports it.

The sum is kept between solves, and only what came or went is added or subtracted: sums are exact,
so the result is the same as adding everything anew.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coordinator.core.work import (
    AdapterNotPrepared,
    AdapterPrepared,
    AverageRound,
    ExportHead,
    FreezeNetwork,
    HeadSolved,
    ModelNotMade,
    PackImported,
    PrepareAdapter,
    SolveHead,
    SolveInput,
    Work,
)
from coordinator.ledger.blobs import Blobs, BlobStore
from coordinator.ledger.reader import LedgerReader
from coordinator.making.adapters import adapter_of
from coordinator.making.network_maker import NetworkMaker
from coordinator.making.packing import facts_of, handed_over, packed
from coordinator.making.variants import variants_of
from coordinator.making.workshop import Finished
from coordinator.paths import ledger_path
from coordinator.topics.lineages.entries import BackboneImported, NetworkImported
from coordinator.topics.models.entries import ModelSolved
from export.head import RowsHead
from export.package import Lineage, pack_model
from learning.errors import LearningError
from learning.numerics.blas import platform_fingerprint
from methods.registry import AnyStatisticsCoordinator, statistics_coordinator
from methods.solved_heads import decode_head, encode_head
from methods.statistics import ExactAggregate, StatisticsAssignment
from schemas.errors import FleetledgerError
from schemas.values import Digest

log = logging.getLogger("coordinator.making.model_maker")


@dataclass
class _Sum:
    """The exact sum of some contributions of one lineage."""

    lineage: Digest
    total: ExactAggregate
    counted: dict[int, SolveInput]


class ModelMaker:
    """Solves and exports, on the workshop's model thread."""

    def __init__(self, home: Path, store: BlobStore) -> None:
        self.networks = NetworkMaker(home, store)
        """Does the same for networks that are trained in rounds."""
        self._ledger = ledger_path(home)
        self._store = store
        self._sum: _Sum | None = None

    def make(self, request: Work) -> Finished:
        """Return what is asked for, or why there is none."""
        match request:
            case SolveHead():
                return self.solve(request)
            case AverageRound():
                return self.networks.average(request)
            case FreezeNetwork():
                return self.networks.freeze(request)
            case PrepareAdapter():
                return self.adapt(request)
            case _:
                return self.export(request)

    def solve(self, request: SolveHead) -> Finished:
        """Return the solved head, or why there is none."""
        try:
            with self._blobs() as blobs:
                solved, weights = self._solve(request, blobs.get)
                return Finished(HeadSolved(solved), blobs.stage([weights]))
        except (FleetledgerError, LearningError) as error:
            self._sum = None
            used = tuple(item.index for item in request.inputs)
            return Finished(ModelNotMade(used, request.class_names, str(error)))

    def export(self, request: ExportHead | PackImported) -> Finished:
        """Return the exported model, or why there is none; an imported one has its files."""
        if isinstance(request, PackImported):
            return self._pack(request)
        if isinstance(request.lineage, NetworkImported):
            return self.networks.export(request, request.lineage)
        try:
            with self._blobs() as blobs:
                return self._export(request, blobs)
        except (FleetledgerError, LearningError) as error:
            solved = request.solved
            return Finished(ModelNotMade(solved.inputs, solved.class_names, str(error)))

    def adapt(self, request: PrepareAdapter) -> Finished:
        """Return an adapter on top of a solved model, or why there is none."""
        try:
            with self._blobs() as blobs:
                return self._adapt(request, blobs)
        except (FleetledgerError, LearningError) as error:
            return Finished(AdapterNotPrepared(str(error)))

    def _adapt(self, request: PrepareAdapter, blobs: Blobs) -> Finished:
        recipe = request.recipe
        side = statistics_coordinator(recipe.lineage.method)
        assignment = side.read_assignment(recipe.lineage.settings)
        total = self._brought_up(recipe, side, assignment, blobs.get)
        moments = side.feature_moments(assignment, total.renamed(recipe.resolution))
        shape = (len(recipe.class_names), recipe.lineage.feature_width)
        weights = decode_head(blobs.get(request.head), shape).weights
        scale = request.logit_scale or assignment.settings.logit_scale
        network, files = adapter_of(request, weights, moments, scale)
        return Finished(AdapterPrepared(network), blobs.stage(files))

    def _pack(self, request: PackImported) -> Finished:
        try:
            with self._blobs() as blobs:
                return packed(request, blobs)
        except FleetledgerError as error:
            return Finished(ModelNotMade((), request.imported.class_names, str(error)))

    def _solve(
        self, request: SolveHead, read: Callable[[Digest], bytes]
    ) -> tuple[ModelSolved, bytes]:
        began = time.perf_counter()
        side = statistics_coordinator(request.lineage.method)
        assignment = side.read_assignment(request.lineage.settings)
        total = self._brought_up(request, side, assignment, read)
        merged = total.renamed(request.resolution)
        head = side.solve(assignment, merged, request.class_names)
        for remark in head.remarks:
            log.warning("model %d: %s", request.version, remark)
        weights = encode_head(head)
        solved = ModelSolved(
            version=request.version,
            lineage=request.lineage.frozen.digest,
            inputs=tuple(item.index for item in request.inputs),
            class_names=request.class_names,
            aggregate=merged.digest,
            head=Digest.of(weights),
            method=request.lineage.method,
            fingerprint=platform_fingerprint(),
            seconds=time.perf_counter() - began,
            remarks=head.remarks,
        )
        return solved, weights

    def _brought_up(
        self,
        request: SolveHead,
        side: AnyStatisticsCoordinator,
        assignment: StatisticsAssignment,
        read: Callable[[Digest], bytes],
    ) -> ExactAggregate:
        """Return the sum of the request's inputs, starting from the sum of the last solve."""
        wanted = {item.index: item for item in request.inputs}
        kept = self._sum
        if kept is None or kept.lineage != request.lineage.frozen.digest:
            kept = _Sum(request.lineage.frozen.digest, side.aggregate_type.empty(assignment), {})
        total, self._sum = kept.total, None  # the memory of the old sum becomes that of the new
        for index in kept.counted.keys() - wanted.keys():
            total = total - _aggregate(side, assignment, kept.counted[index], read)
        for index in sorted(wanted.keys() - kept.counted.keys()):
            total += _aggregate(side, assignment, wanted[index], read)
        self._sum = _Sum(kept.lineage, total, wanted)
        return total

    def _export(self, request: ExportHead, blobs: Blobs) -> Finished:
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


def _aggregate(
    side: AnyStatisticsCoordinator,
    assignment: StatisticsAssignment,
    given: SolveInput,
    read: Callable[[Digest], bytes],
) -> ExactAggregate:
    statistics = side.read(assignment, read(given.payload))
    return side.aggregate_type.of(assignment, statistics, given.stage)
