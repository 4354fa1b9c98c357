"""What coordinator halves have in common whose devices answer with weights that are averaged.

A method says around which weights the answers to a round lie; checking and adding them, the first
weights and what is exported follow from that. Pure functions of bytes; no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Literal, Protocol, TypeVar

from learning.networks.network import AnyNetwork
from methods.answers import AnswerFrame, AnswerSum, Arrays, Mean
from methods.network_weights import decode_weights, encode_weights
from methods.once import OncePerRound
from methods.training_half import Asked, Given, Summing
from schemas.values import ClassName


class AveragedSettings(Protocol):
    """What averaging looks at in a method's settings."""

    @property
    def seed(self) -> int:
        """Of the first weights."""

    @property
    def averaging(self) -> Literal["samples", "plain"]:
        """Weigh answers by their number of samples, or alike."""


class AveragedAssignment(Protocol):
    """What averaging looks at in a method's assignment."""

    @property
    def settings(self) -> AveragedSettings:
        """The method's settings."""

    @property
    def network(self) -> AnyNetwork:
        """The network that is trained."""


A = TypeVar("A", bound=AveragedAssignment)
N_co = TypeVar("N_co", bound=AnyNetwork, covariant=True)


class OfNetwork(Protocol[N_co]):
    """What says which network is trained."""

    @property
    def network(self) -> N_co:
        """The network."""


class Averaging(Generic[A]):
    """Checks and adds answers; `frame_of` makes what those to a round look like."""

    def __init__(self, frame_of: Callable[[A, Asked], AnswerFrame]) -> None:
        self._frame_of = frame_of
        # Of the newest round: each of its answers is checked against it.
        self._newest = OncePerRound[AnswerFrame]()

    def check(self, assignment: A, payload: bytes, asked: Asked) -> None:
        """Raise `ContributionError` unless the payload answers what was asked.

        Tensors, shapes and types are those of the network, its size is bounded by theirs, nothing
        leaves the grid, and no running variance is below zero.
        """
        self._frame(assignment, asked).check(payload)

    def summing(self, assignment: A, asked: Asked, most: int) -> Summing:
        """Return the empty sum of at most so many answers; `MethodError` if it may not fit."""
        return self._frame(assignment, asked).summing(most, weighted=_is_weighted(assignment))

    def mean(self, assignment: A, asked: Asked, answers: Sequence[Given] | Summing) -> Mean:
        """Return the mean of answers, at least one.

        Raises `MethodError` where their sum could not be exact.
        """
        if isinstance(answers, AnswerSum):
            return answers.mean()
        return self._frame(assignment, asked).mean(answers, weighted=_is_weighted(assignment))

    def _frame(self, assignment: A, asked: Asked) -> AnswerFrame:
        return self._newest(asked, assignment, lambda: self._frame_of(assignment, asked))


def first_weights(assignment: AveragedAssignment) -> bytes:
    """Return the network before anybody trained; its head has no row yet."""
    return encode_weights(assignment.network.initial(assignment.settings.seed, ()), ())


def network_of(
    assignment: OfNetwork[N_co], weights: bytes
) -> tuple[N_co, Arrays, tuple[ClassName, ...]]:
    """Return network, tensors and rows of the head, to be exported."""
    arrays, names = decode_weights(weights, assignment.network)
    return assignment.network, arrays, names


def _is_weighted(assignment: AveragedAssignment) -> bool:
    return assignment.settings.averaging == "samples"
