"""FedHAF at the coordinator: check answers, and average them exactly.

    first_weights   adapter and head before anybody trained, from a seed
    combine         (15) theta = sum_k w_k theta_k, over integers; and, after a stage, the old
                    model theta_{t-1} of the next

Pure functions of bytes; no torch.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleetledger.methods.fedhaf.assignment import OLD_MODEL, FedHafAssignment
from fleetledger.methods.fedhaf.messages import frame_of, received
from fleetledger.methods.training.averaging import AveragingCoordinator
from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.exchange import RoundConfig


class FedHafCoordinator(AveragingCoordinator[FedHafAssignment]):
    """Averages adapters and heads."""

    assignment_type = FedHafAssignment

    def frame(self, assignment: FedHafAssignment, config: RoundConfig) -> UpdateFrame:
        """Return what updates to a round look like."""
        sent = received(
            assignment,
            config.weights,
            config.weights_class_names,
            config.class_names,
            config.round_of_stage,
        )
        return frame_of(sent, assignment.settings.upload)

    def extras_after(
        self, assignment: FedHafAssignment, config: RoundConfig, weights: bytes
    ) -> Mapping[str, bytes]:
        """Return the old model of the next stage where this one ends."""
        if config.ends_stage and assignment.settings.needs_old_model:
            return {OLD_MODEL: weights}
        return {}


COORDINATOR = FedHafCoordinator()
