"""Echo at the coordinator: the exact mean, as `methods.rounds` takes it."""

from __future__ import annotations

from benchmarks.speed.fleet_overhead.echo.messages import EchoAssignment, frame_of
from fleetledger.methods.training.averaging import AveragingCoordinator
from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.exchange import RoundConfig


class EchoCoordinator(AveragingCoordinator[EchoAssignment]):
    """Averages, weighted by samples."""

    assignment_type = EchoAssignment

    def frame(self, assignment: EchoAssignment, config: RoundConfig) -> UpdateFrame:
        """Return what updates to a round look like."""
        names = config.weights_class_names, config.class_names
        return frame_of(assignment, config.weights, *names)


COORDINATOR = EchoCoordinator()
