"""DCID at the coordinator: shared images, the ensemble, the mean of models, and DAD.

    share          S, every image that sites shared, without labels, shuffled
    train          zbar_0 = sum_m omega_m z_m,0
    distil         theta = sum_m (N_m / N) [theta_m]_1, (4); zbar_1 likewise; then DAD, (5)
    train-alone    (4) of models after DID, the basic framework; with DAD on top where it is set
    means          the mean direction of anchors' features, for evaluation by the nearest mean

Sums are exact, whatever the order of answers. DAD is training: it needs torch, and is the same to
the last bit on one kind of machine (`aggregated`). Everything else is NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from learning.networks.network import Network
from methods.dcid.assignment import MEANS, SHARE, DcidAssignment, read_assignment
from methods.dcid.combining import Averaging, Ensemble, Measuring, Sharing
from methods.dcid.images import Images, checked_images, encode_images
from methods.dcid.model import answering, decode_general
from methods.errors import MethodError
from methods.network_weights import Arrays, encode_weights
from methods.once import OncePerRound
from methods.training_half import Asked, Combined, Given, Summing
from schemas.rounds import TRAIN
from schemas.values import ClassName

__all__ = [
    "assign",
    "check",
    "combine",
    "first_weights",
    "network_of",
    "read_assignment",
    "shared_of",
    "summing",
]


class _Phase(Protocol):
    """What answers to a phase look like, and what becomes of them."""

    def check(self, payload: bytes) -> None:
        """Raise `ContributionError` unless the payload could be an answer."""

    def summing(self, most: int) -> Summing:
        """Return the empty sum of at most so many answers; raise `MethodError`."""

    def combined(self, total: Summing) -> Combined:
        """Return what the answers became; raise `MethodError`."""


# Of the newest round: each of its answers is checked against it.
_NEWEST = OncePerRound[_Phase]()


def assign(settings: Mapping[str, Any], input_shape: tuple[int, ...]) -> DcidAssignment:
    """Return the assignment of a lineage; raise `MethodError` naming the field that is wrong."""
    return read_assignment({"settings": dict(settings), "input_shape": list(input_shape)})


def first_weights(assignment: DcidAssignment) -> bytes:
    """Return the network before anybody trained; its head has no row yet."""
    return encode_weights(assignment.network.initial(assignment.settings.seed, ()), ())


def shared_of(assignment: DcidAssignment, images: Images) -> bytes:
    """Return the file of public images (n, c, h, w) that an operator gives; raise `MethodError`."""
    return encode_images(checked_images(images, assignment.input_shape))


def check(assignment: DcidAssignment, payload: bytes, asked: Asked) -> None:
    """Raise `ContributionError` unless the payload answers what was asked."""
    _phase(assignment, asked).check(payload)


def summing(assignment: DcidAssignment, asked: Asked, most: int) -> Summing:
    """Return the empty sum of at most so many answers; raise `MethodError` if it may not fit."""
    return _phase(assignment, asked).summing(most)


def combine(
    assignment: DcidAssignment, asked: Asked, answers: Sequence[Given] | Summing
) -> Combined:
    """Return what a phase's answers became, at least one of them; raise `MethodError`."""
    phase = _phase(assignment, asked)
    if not isinstance(answers, Sequence):
        return phase.combined(answers)
    total = phase.summing(len(answers))
    for answer in answers:
        total.add(answer.read(), answer.samples)
    return phase.combined(total)


def network_of(
    assignment: DcidAssignment, weights: bytes
) -> tuple[Network, Arrays, tuple[ClassName, ...]]:
    """Return network, tensors and rows of the head, to be exported.

    Where class means were measured the head's rows are these.
    """
    model = decode_general(weights, assignment.network)
    return (*answering(assignment.network, model), model.names)


def _phase(assignment: DcidAssignment, asked: Asked) -> _Phase:
    return _NEWEST(asked, assignment, lambda: _made(assignment, asked))


def _made(assignment: DcidAssignment, asked: Asked) -> _Phase:
    known = (
        *assignment.opening_phases,
        *assignment.round_phases,
        *assignment.closing_phases,
    )
    if asked.phase not in known:
        raise MethodError(f"phase: {asked.phase!r} is none of {', '.join(known)}")
    if asked.phase == SHARE:
        return Sharing(assignment, asked)
    if asked.phase == TRAIN:
        return Ensemble(assignment, asked)
    if asked.phase == MEANS:
        return Measuring(assignment, asked)
    return Averaging(assignment, asked)
