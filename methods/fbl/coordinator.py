"""FBL at the coordinator: check answers, average them exactly, keep the model of the task before.

    first_weights   the network before anybody trained, from a seed
    combine         theta = sum_k theta_k / n, over integers; in a round that registers classes, the
                    weights that were sent become Theta^{t-1}, which late devices are given

Pure functions of bytes; no torch.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleetledger.methods.fbl.assignment import OLD_MODEL, FblAssignment
from fleetledger.methods.fbl.messages import frame_of, received, registers_classes
from fleetledger.methods.training.averaging import AveragingCoordinator
from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.exchange import RoundConfig


class FblCoordinator(AveragingCoordinator[FblAssignment]):
    """Averages, and keeps the model of the task before."""

    assignment_type = FblAssignment

    def frame(self, assignment: FblAssignment, config: RoundConfig) -> UpdateFrame:
        """Return what updates to a round look like."""
        sent = received(assignment, config.weights, config.weights_class_names, config.class_names)
        return frame_of(assignment, sent)

    def extras_after(
        self, assignment: FblAssignment, config: RoundConfig, weights: bytes
    ) -> Mapping[str, bytes]:
        """Return the old model where the round registered classes."""
        known = config.weights_class_names
        registers = bool(known) and registers_classes(known, config.class_names)
        if assignment.settings.needs_old_model and registers:
            return {OLD_MODEL: config.weights}
        return {}


COORDINATOR = FblCoordinator()
