"""Answers of devices that were trained together: each by its method, or all on their accelerator.

Weights that lie on an accelerator are rounded and summed there (`learning.training.rounding`), and
what the host needs of them, their bytes to hash, comes back in one copy. What cannot be so, since
it is no answer of weights, or none that fits, goes the usual way, tensor by tensor, with the same
outcome.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from fleetledger.device_agent.models.training import TrainingSession
from fleetledger.learning.errors import LearningError
from fleetledger.methods.training.averaged_device import Answer, AveragedDevice
from fleetledger.methods.training.client_updates import partial_of
from fleetledger.methods.training.exchange import ClientUpdate, Partial
from fleetledger.methods.training.sides import AnyTrainingAssignment, AnyTrainingDevice
from fleetledger.runtime.errors import FleetledgerError

if TYPE_CHECKING:
    from fleetledger.learning.training.rounding import Rounded, RoundingThere
    from fleetledger.learning.training.work import Trained

Who = TypeVar("Who", bound=Hashable)
Ended = Mapping[Who, tuple[TrainingSession, "Trained | None"]]


@dataclass(frozen=True)
class Declined:
    """There is no answer: no data, or a reason why it could not be trained."""

    reason: str = ""


class FinishedMember(NamedTuple):
    """What came of a device."""

    outcome: ClientUpdate | Declined
    is_summed: bool = False
    """Whether the answer is in the sum on the accelerator already."""


class Finishing:
    """Makes the answers to one round of what was trained on `device`."""

    def __init__(
        self,
        side: AnyTrainingDevice,
        assignment: AnyTrainingAssignment,
        device: str,
        *,
        sums: bool = True,
    ) -> None:
        """Sum the answers as well, or leave that to whoever gets their bytes."""
        there = device != "cpu" and isinstance(side, AveragedDevice)
        self._side = side if there else None
        self._sums = sums
        self._assignment, self._device = assignment, device
        self._rounding: RoundingThere | None = None
        self._samples: list[int] = []
        self._distances: list[float] = []

    def finished_one(self, session: TrainingSession, trained: Trained | None) -> FinishedMember:
        """Return what comes of a device that was trained alone."""
        if self._side is None:
            return FinishedMember(_usual(session, trained))
        return self.finished({"it": (session, trained)})["it"]

    def finished(self, ended: Ended[Who]) -> dict[Who, FinishedMember]:
        """Return what comes of devices, of which each had something to do."""
        if self._side is None:
            return {one: FinishedMember(_usual(*it)) for one, it in ended.items()}
        answers = self._answers(ended)
        there = self._rounded(ended, answers) if answers else {}
        return {one: there.get(one) or FinishedMember(_usual(*ended[one])) for one in ended}

    def partial(self) -> Partial | None:
        """Return what was summed on the accelerator since this was last asked; None for nothing."""
        if self._rounding is None:
            return None
        weighted = self._assignment.is_weighted
        flat = self._rounding.sums()
        self._rounding = None
        samples, self._samples = self._samples, []
        distances, self._distances = self._distances, []
        return partial_of(flat, samples, distances, weighted=weighted)

    def _answers(self, ended: Ended[Who]) -> dict[Who, Answer]:
        """Return the weights of those who answer with such, as far as their form is right."""
        if not isinstance(self._side, AveragedDevice):
            return {}
        answers: dict[Who, Answer] = {
            one: self._side.answer(self._assignment, session.job, trained)
            for one, (session, trained) in ended.items()
            if trained is not None
        }
        if answers and self._rounding is None:
            from fleetledger.learning.training.rounding import RoundingThere  # noqa: PLC0415 - needs torch

            frame = next(iter(answers.values())).frame  # equal to those of the others
            if not frame.form.rounds_singly:
                return {}
            self._rounding = RoundingThere(frame.grid, frame.sent, self._device)
        takes = self._rounding.takes if self._rounding is not None else bool
        return {one: answer for one, answer in answers.items() if takes(answer.weights)}

    def _rounded(
        self, ended: Ended[Who], answers: Mapping[Who, Answer]
    ) -> dict[Who, FinishedMember]:
        """Return what comes of answers that fit, and add those that count."""
        assert self._rounding is not None
        rounded = self._rounding.rounded([answer.weights for answer in answers.values()])
        outcomes = {
            one: self._updated(ended[one], answer.frame.framed(rounded.content[row]))
            for row, (one, answer) in enumerate(answers.items())
            if rounded.fits[row]
        }
        if self._sums:
            self._add(rounded, [outcomes.get(one, Declined()) for one in answers])
        return {one: FinishedMember(it, is_summed=self._sums) for one, it in outcomes.items()}

    def _updated(
        self, ended: tuple[TrainingSession, Trained | None], payload: bytes
    ) -> ClientUpdate | Declined:
        session, trained = ended
        assert isinstance(self._side, AveragedDevice)
        assert trained is not None, "it has answered"
        try:
            return self._side.update(self._assignment, session.job, trained, payload)
        except (FleetledgerError, LearningError) as error:
            return Declined(str(error))

    def _add(self, rounded: Rounded, outcomes: list[ClientUpdate | Declined]) -> None:
        assert self._rounding is not None
        counts = [
            0 if isinstance(outcome, Declined) else sum(outcome.samples.values())
            for outcome in outcomes
        ]
        weighted = self._assignment.is_weighted
        self._rounding.add(rounded, [count if weighted else min(count, 1) for count in counts])
        for count, distance in zip(counts, rounded.distances, strict=True):
            if count:
                self._samples.append(count)
                self._distances.append(distance)


def _usual(session: TrainingSession, trained: Trained | None) -> ClientUpdate | Declined:
    try:
        return session.answer(trained)
    except (FleetledgerError, LearningError) as error:  # training left the numbers
        return Declined(str(error))
