"""Echo at the coordinator: the exact mean, as `methods.rounds` takes it."""

from __future__ import annotations

from methods.echo.messages import EchoAssignment, frame_of

from methods.answers import AnswerFrame
from methods.averaging import AveragingCoordinator
from methods.training import RoundConfig


class EchoCoordinator(AveragingCoordinator[EchoAssignment]):
    """Averages, weighted by samples."""

    assignment_type = EchoAssignment

    def frame(self, assignment: EchoAssignment, asked: RoundConfig) -> AnswerFrame:
        """Return what updates to a round look like."""
        names = asked.weights_class_names, asked.class_names
        return frame_of(assignment, asked.weights, *names)


COORDINATOR = EchoCoordinator()
