"""Maker of networks that train in rounds: checks answers, averages, exports, freezes.

What an average is, the method's side says; here its files are fetched, and what came of it is
described for the ledger.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from fleetledger.coordinator.core import work
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.models.backbones import OperatorsMethod, lineage_of
from fleetledger.coordinator.models.cohort_sum import sum_of
from fleetledger.coordinator.models.file_offers import offer_of
from fleetledger.coordinator.models.job_runner import Finished
from fleetledger.coordinator.models.model_package import facts_of, handed_over
from fleetledger.coordinator.models.round_sum import RoundSum
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.cohorts.entries import CohortSummed
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.models.kinds import not_made
from fleetledger.coordinator.topics.rounds.entries import Buffering, RoundOpened, WeightsAveraged
from fleetledger.export.backbone import import_backbone
from fleetledger.export.errors import ModelFileError
from fleetledger.export.network import export_body, export_network
from fleetledger.export.network_head import NETWORK_RULES, NetworkHead
from fleetledger.export.package import DEFAULT_RULES, ExportedModel, Lineage, pack_model
from fleetledger.learning.errors import LearningError
from fleetledger.learning.networks.network import AnyNetwork
from fleetledger.learning.networks.segmentation.network import SegmentationNetwork
from fleetledger.learning.numerics.blas import platform_fingerprint
from fleetledger.methods.registry import training_coordinator
from fleetledger.methods.training.averaging import AveragingCoordinator
from fleetledger.methods.training.exchange import (
    BufferStep,
    CountedUpdate,
    RoundConfig,
    StaleUpdates,
    Summing,
)
from fleetledger.methods.training.network_weights import Arrays, decode_base
from fleetledger.methods.training.sides import AnyTrainingAssignment
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.schemas.models import BACKGROUND, Preprocessing
from fleetledger.schemas.values import ClassName, Digest


@dataclass(frozen=True, eq=False)
class _Told:
    """What a method's side is told of a round; made once for all that concerns the round."""

    lineage: NetworkImported
    opened: RoundOpened
    assignment: AnyTrainingAssignment
    config: RoundConfig

    def tells(self, lineage: NetworkImported, opened: RoundOpened) -> bool:
        """Whether it is of this round."""
        same_round = self.opened is opened or self.opened == opened  # to compare takes long
        return same_round and (self.lineage is lineage or self.lineage == lineage)


class NetworkMaker:
    """Runs on the job runner's threads: `check` on that of payloads, the rest on that of models."""

    def __init__(self, home: Path, store: BlobStore) -> None:
        self._ledger = ledger_path(home)
        self._store = store
        self._told: _Told | None = None
        """Of the newest round whose answers are checked."""
        self._sum = RoundSum()
        self.draw_seed: Callable[[RoundOpened], bytes] = _drawn
        """Gives the seed of a round's noise; a simulator's is a function of its own seed."""

    def check(self, request: work.TakePayload, payload: bytes) -> None:
        """Raise the method's `ContributionError` unless a payload answers its round."""
        told = self._told_of(request)
        training_coordinator(request.lineage.method).check(told.assignment, payload, told.config)

    def add(self, request: work.TakePayload, payload: bytes) -> None:
        """Add an answer to its round's sum, after it was checked and stored.

        Those to asynchronous rounds are read from the store: another round may count them.
        """
        if request.round is not None and request.round.buffering is not None:
            return

        def begin() -> Summing:
            told = self._told_of(request)
            side = training_coordinator(told.lineage.method)
            return side.summing(told.assignment, told.config, len(told.opened.cohort))

        self._sum.add(request, payload, begin)

    def average(self, request: work.AverageRound, summed: Summing | None = None) -> Finished:
        """Return the fleet's new weights, or why there are none.

        `summed` are the answers that the request lists, where somebody else added them as they
        came.
        """
        own = self._sum.take(request)
        try:
            with self._blobs() as blobs:
                return self._average(request, own if summed is None else summed, blobs)
        except (FleetledgerError, LearningError) as error:
            return Finished(work.RoundNotAveraged(request.opened.number, str(error)))
        except ImportError as error:  # torch went since the network was imported
            reason = f"{error}, and the method needs it here: install the extra 'train'"
            return Finished(work.RoundNotAveraged(request.opened.number, reason))

    def export(self, request: work.ExportHead, lineage: NetworkImported) -> Finished:
        """Return the network as ONNX, or why it is none."""
        try:
            with self._blobs() as blobs:
                return handed_over(pack_network(request, lineage, blobs), blobs)
        except (FleetledgerError, LearningError) as error:
            return Finished(not_made(str(error), solved=request.solved))

    def freeze(self, request: work.FreezeNetwork) -> Finished:
        """Return the frozen model of the lineage that follows, or why there is none."""
        try:
            with self._blobs() as blobs:
                return self._freeze(request, blobs)
        except (FleetledgerError, LearningError) as error:
            failed = not_made(str(error), weights_index=request.weights_index)
            return Finished(failed)

    def _average(
        self, request: work.AverageRound, summed: Summing | None, blobs: Blobs
    ) -> Finished:
        began = time.perf_counter()
        lineage, opened = request.lineage, request.opened
        side = training_coordinator(lineage.method)
        told = self._told
        if told is None or not told.tells(request.lineage, opened):
            told = _told(lineage, opened, blobs.get)
        own = told.assignment
        seed = (request.noise_seed or self.draw_seed(opened)) if own.adds_noise else b""
        config = replace(told.config, noise_seed=seed) if seed else told.config
        if opened.buffering is not None:
            step = BufferStep(opened.buffering.rate, opened.buffering.mixes)
            groups = _groups(request, opened.buffering, blobs)
            made = side.combine_stale(own, config, step, groups)
        elif any(item.members > 1 for item in request.inputs):
            made = side.combine(own, config, _of_cohorts(told, request, blobs))
        elif summed is None:
            given = [_given(item.payload, item.samples, blobs) for item in request.inputs]
            made = side.combine(own, config, given)
        else:
            made = side.combine(own, config, summed)
        measures = [made.measures[item.payload] for item in request.inputs if made.measures]
        weights = offer_of(made.weights)
        extras = {name: offer_of(data) for name, data in made.extras.items()}
        averaged = WeightsAveraged(
            number=opened.number,
            phase=opened.phase,
            unchanged=made.weights == config.weights,
            lineage=lineage.digest,
            inputs=tuple(item.index for item in request.inputs),
            class_names=_rows(opened, made.weights == config.weights),
            aggregate=made.aggregate,
            weights=weights,
            extras=extras,
            samples=made.samples,
            client_drift=round(made.client_drift, 6),
            fingerprint=fingerprint_of(own),
            seconds=time.perf_counter() - began,
            remarks=made.remarks,
            noise_seed=seed.hex(),
            norms=tuple(float(f"{one.norm:.4g}") for one in measures),
            cosines=tuple(None if one.cosine is None else round(one.cosine, 4) for one in measures),
        )
        files = {offer.digest: made.extras[name] for name, offer in extras.items()}
        small = blobs.stage_named({weights.digest: made.weights, **files})
        return Finished(averaged, small)

    def sum_cohort(self, request: work.SumCohort, blobs: Blobs) -> Finished:
        """Return what the sum of a cohort's answers counts as; raise what is wrong with it."""
        lineage, opened = request.lineage, request.round
        assert isinstance(lineage, NetworkImported)
        assert opened is not None
        told = _told(lineage, opened, blobs.get)
        words, members = sum_of(request, blobs.get), tuple(one.device for one in request.words)
        averaging_side(lineage.method).from_words(told.assignment, told.config, words, len(members))
        payload = words.astype("<u8").tobytes()
        body = CohortSummed(
            number=request.cohort.number,
            stage=request.cohort.stage,
            round=opened.number,
            lineage=request.cohort.lineage,
            members=members,
            payload=Digest.of(payload),
            payload_bytes=len(payload),
            weight=int(words[0]),
        )
        return Finished(body, blobs.stage([payload]))

    def _freeze(self, request: work.FreezeNetwork, blobs: Blobs) -> Finished:
        network, successor = request.lineage, request.lineage.successor
        assert successor is not None
        trained = training_coordinator(network.method)
        described, arrays, _ = trained.network_of(
            trained.read_assignment(network.settings),
            blobs.get(request.weights.weights.digest),
        )
        if isinstance(described, SegmentationNetwork):
            raise ModelFileError(
                f"network: {network.name!r} gives every pixel a class and is no backbone of whole "
                f"pictures, which {successor.method!r} needs; import another network"
            )
        base = base_of(network, described, blobs)
        body = export_body(described, arrays, network.preprocessing, base)
        backbone = import_backbone(body, network.preprocessing)
        method = OperatorsMethod(successor.method, successor.settings, successor.noise)
        imported, files = lineage_of(backbone, network.name, method)
        return Finished(imported, blobs.stage(files))

    def _told_of(self, request: work.TakePayload) -> _Told:
        lineage, opened = request.lineage, request.round
        assert isinstance(lineage, NetworkImported)
        assert opened is not None
        if self._told is None or not self._told.tells(lineage, opened):
            with self._blobs() as blobs:
                self._told = _told(lineage, opened, blobs.get)
        return self._told

    @contextmanager
    def _blobs(self) -> Iterator[Blobs]:
        with LedgerReader.open_read_only(self._ledger) as ledger:
            yield Blobs(ledger, self._store)


def _drawn(_opened: RoundOpened) -> bytes:
    return secrets.token_bytes(32)


def _told(lineage: NetworkImported, opened: RoundOpened, read: Callable[[Digest], bytes]) -> _Told:
    own = training_coordinator(lineage.method).read_assignment(lineage.settings)
    return _Told(lineage, opened, own, config_of(lineage, opened, read))


def config_of(
    lineage: NetworkImported, opened: RoundOpened, read: Callable[[Digest], bytes]
) -> RoundConfig:
    """Return a round as the method's side is told of it; `read` gives its files."""
    sight = lineage.preprocessing if lineage.backbone is None else None
    return RoundConfig(
        phase=opened.phase,
        round_of_stage=opened.round_of_stage,
        rounds_of_stage=opened.rounds_of_stage,
        weights=read(opened.weights.digest),
        weights_class_names=opened.weights_class_names,
        class_names=opened.class_names,
        aliases=opened.aliases,
        extras={name: read(offer.digest) for name, offer in opened.extras.items()},
        mean=sight.mean if isinstance(sight, Preprocessing) else (),
        deviation=sight.deviation if isinstance(sight, Preprocessing) else (),
        seed=opened.seed,
        robust=opened.robust,
    )


def _rows(opened: RoundOpened, unchanged: bool) -> tuple[ClassName, ...]:
    """Return the rows of the head after a round; phases that pass weights on add none."""
    return opened.weights_class_names if unchanged else opened.class_names


def _given(payload: Digest, samples: int, blobs: Blobs) -> CountedUpdate:
    return CountedUpdate(samples, lambda: blobs.get(payload))


def averaging_side(method: str) -> AveragingCoordinator[AnyTrainingAssignment]:
    """Return the side of a method whose answers are summed behind masks."""
    side = training_coordinator(method)
    assert isinstance(side, AveragingCoordinator), f"{method} has a masked form"
    return side


def _of_cohorts(told: _Told, request: work.AverageRound, blobs: Blobs) -> Summing:
    """Return the sum of cohorts' sums."""
    side = averaging_side(told.lineage.method)
    devices = sum(item.members for item in request.inputs)
    total = side.summing(told.assignment, told.config, devices)
    for item in request.inputs:
        words = np.frombuffer(blobs.get(item.payload), "<u8").astype(np.uint64)
        total.join(side.from_words(told.assignment, told.config, words, item.members))
    return total


def _groups(request: work.AverageRound, terms: Buffering, blobs: Blobs) -> tuple[StaleUpdates, ...]:
    """Return the answers to an asynchronous round, by the round that they began from."""
    opened = {one.number: one for one in (*request.older, request.opened)}
    given: dict[tuple[int, int], list[CountedUpdate]] = {}
    for item in request.inputs:
        updates = given.setdefault((item.began, item.staleness), [])
        updates.append(_given(item.payload, item.samples, blobs))
    return tuple(
        StaleUpdates(
            config_of(request.lineage, opened[began], blobs.get),
            terms.staleness_weights[min(age, terms.max_staleness)],
            updates,
        )
        for (began, age), updates in sorted(given.items(), key=lambda item: item[0])
    )


def pack_network(request: work.ExportHead, lineage: NetworkImported, blobs: Blobs) -> ExportedModel:
    """Return a trained network as files: behind its backbone, or as trunk and rows of its own."""
    side = training_coordinator(lineage.method)
    assignment = side.read_assignment(lineage.settings)
    facts = facts_of(request, assignment.logit_scale)
    network, arrays, _ = side.network_of(assignment, blobs.get(request.solved.head))
    preprocessing, base = lineage.preprocessing, base_of(lineage, network, blobs)
    if lineage.backbone is not None:
        assert not isinstance(network, SegmentationNetwork)  # it sees whole pictures
        frozen = blobs.get(lineage.backbone.frozen.digest)
        shared = Lineage(frozen, blobs.get(lineage.golden.digest), preprocessing)
        head = NetworkHead(network, arrays, lineage.backbone.feature_width, base)
        return pack_model(shared, facts, head, NETWORK_RULES)
    files = export_network(network, arrays, preprocessing, base)
    own, rules = Lineage(files.trunk, files.golden, preprocessing), DEFAULT_RULES
    if lineage.segments:
        facts = replace(facts, class_names=(ClassName(BACKGROUND), *facts.class_names))
        rules = NETWORK_RULES
    return pack_model(own, facts, files.head, rules)


def base_of(lineage: NetworkImported, network: AnyNetwork, blobs: Blobs) -> Arrays:
    """Return the network's tensors that nobody trains; none where all are trained."""
    return {} if lineage.base is None else decode_base(blobs.get(lineage.base.digest), network)


def fingerprint_of(assignment: AnyTrainingAssignment) -> dict[str, str]:
    """Return the platform's fingerprint, with torch's where the coordinator's side trains with it.

    Keys beside those of `platform_fingerprint`: `torch`, its version, and `torch_cpu`, the
    instructions that it uses.
    """
    if not trains_here(assignment) or find_spec("torch") is None:
        return platform_fingerprint()
    import torch  # noqa: PLC0415 - heavy, and an extra

    return {
        **platform_fingerprint(),
        "torch": str(torch.__version__),
        "torch_cpu": str(torch.backends.cpu.get_cpu_capability()),
    }


def trains_here(assignment: AnyTrainingAssignment) -> bool:
    """Whether the coordinator's side of a method trains, which needs torch."""
    return assignment.coordinator_trains
