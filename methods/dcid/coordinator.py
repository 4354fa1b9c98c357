"""DCID at the coordinator: shared images, the ensemble, the mean of models, and DAD.

    share          S, every image that sites shared, without labels, shuffled
    imprint        new rows of the head, for LUCIR with rows that are equal at all sites
    train          zbar_0 = sum_m omega_m z_m,0
    distil         theta = sum_m (N_m / N) [theta_m]_1, (4); zbar_1 likewise; then DAD, (5)
    train-alone    (4) of models after DID, the basic framework; with DAD on top where it is set
    means          the mean direction of anchors' features, for evaluation by the nearest mean

Sums are exact, whatever the order of answers. DAD is training: it needs torch, and is the same to
the last bit on one kind of machine (`aggregated`). Everything else is NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fleetledger.learning.networks.network import Network
from fleetledger.methods.dcid.assignment import IMPRINT, MEANS, SHARE, DcidAssignment
from fleetledger.methods.dcid.coordinator_phases import (
    Averaging,
    Ensemble,
    Imprinting,
    Measuring,
    Sharing,
)
from fleetledger.methods.dcid.images import Images, checked_images, encode_images
from fleetledger.methods.dcid.model import answering, decode_general
from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.exchange import (
    CountedUpdate,
    RoundConfig,
    RoundOutcome,
    RoundParts,
    Summing,
)
from fleetledger.methods.training.network_weights import Arrays
from fleetledger.methods.training.round_cache import RoundCache
from fleetledger.methods.training.sides import TrainingCoordinator
from fleetledger.schemas.rounds import TRAIN
from fleetledger.schemas.values import ClassName


class _Phase(Protocol):
    """What answers to a phase look like, and what becomes of them."""

    def check(self, payload: bytes) -> None:
        """Raise `ContributionError` unless the payload could be an answer."""

    def summing(self, most: int) -> Summing:
        """Return the empty sum of at most so many answers; raise `MethodError`."""

    def combined(self, total: Summing) -> RoundOutcome:
        """Return what the answers became; raise `MethodError`."""


class DcidCoordinator(TrainingCoordinator[DcidAssignment]):
    """Does with the updates to a phase what the phase is for."""

    assignment_type = DcidAssignment

    def __init__(self) -> None:
        # Of the newest round: each of its updates is checked against it.
        self._newest = RoundCache[_Phase]()

    def shared_of(self, assignment: DcidAssignment, images: Images) -> bytes:
        """Return the file of public images (n, c, h, w) of an operator; raise `MethodError`."""
        return encode_images(checked_images(images, assignment.input_shape))

    def check(self, assignment: DcidAssignment, payload: bytes, config: RoundConfig) -> None:
        """Raise `ContributionError` unless the payload answers what was asked."""
        self._phase(assignment, config).check(payload)

    def summing(self, assignment: DcidAssignment, config: RoundConfig, most: int) -> Summing:
        """Return the empty sum of at most so many updates; raise `MethodError`."""
        return self._phase(assignment, config).summing(most)

    def combine(
        self,
        assignment: DcidAssignment,
        config: RoundConfig,
        updates: Sequence[CountedUpdate] | Summing,
    ) -> RoundOutcome:
        """Return what a phase's answers became, at least one of them; raise `MethodError`."""
        phase = self._phase(assignment, config)
        if not isinstance(updates, Sequence):
            return phase.combined(updates)
        total = phase.summing(len(updates))
        for answer in updates:
            total.add(answer.read(), answer.samples)
        return phase.combined(total)

    def parts_of(
        self, assignment: DcidAssignment, config: RoundConfig, updates: Sequence[CountedUpdate]
    ) -> RoundParts | None:
        """Return the sites' models after DCD and their mean before DAD, where updates are models.

        Weights are omega_m of the ensemble that DAD distils.
        """
        phase = self._phase(assignment, config)
        return phase.parts(updates) if isinstance(phase, Averaging) else None

    def network_of(
        self, assignment: DcidAssignment, weights: bytes
    ) -> tuple[Network, Arrays, tuple[ClassName, ...]]:
        """Return network, tensors and rows of the head, to be exported.

        Where class means were measured the head's rows are these.
        """
        model = decode_general(weights, assignment.network)
        return (*answering(assignment.network, model), model.names)

    def _phase(self, assignment: DcidAssignment, config: RoundConfig) -> _Phase:
        return self._newest(config, assignment, lambda: _made(assignment, config))


COORDINATOR = DcidCoordinator()


def _made(assignment: DcidAssignment, config: RoundConfig) -> _Phase:
    known = (
        *assignment.opening_phases,
        *assignment.round_phases,
        *assignment.closing_phases,
    )
    if config.phase not in known:
        raise MethodError(f"phase: {config.phase!r} is none of {', '.join(known)}")
    if config.phase == SHARE:
        return Sharing(assignment, config)
    if config.phase == IMPRINT:
        return Imprinting(assignment, config)
    if config.phase == TRAIN:
        return Ensemble(assignment, config)
    if config.phase == MEANS:
        return Measuring(assignment, config)
    return Averaging(assignment, config)
