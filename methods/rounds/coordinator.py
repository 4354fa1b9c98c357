"""Rounds at the coordinator: check answers, and average them exactly.

    first_weights   the network before anybody trained, from a seed
    combine         theta = sum_k n_k theta_k / sum_k n_k, FedAvg's mean, over integers; and, after
                    a stage, the old model and the Fisher diagonal that some losses need

Pure functions of bytes; no torch.
"""

from __future__ import annotations

from collections.abc import Mapping

from methods.answers import AnswerFrame, Arrays
from methods.averaging import AveragingCoordinator
from methods.network_weights import encode_weights
from methods.rounds.assignment import FISHER, OLD_MODEL, RoundsAssignment
from methods.rounds.fisher import consolidated, encode_fisher
from methods.rounds.messages import frame_of, received
from methods.training import RoundConfig


class RoundsCoordinator(AveragingCoordinator[RoundsAssignment]):
    """Averages, and measures the Fisher diagonal where a loss needs it."""

    assignment_type = RoundsAssignment

    def frame(self, assignment: RoundsAssignment, asked: RoundConfig) -> AnswerFrame:
        """Return what updates to a round look like."""
        sent = received(assignment, asked.weights, asked.weights_class_names, asked.class_names)
        return frame_of(assignment, sent, asked.phase)

    def after(
        self, assignment: RoundsAssignment, asked: RoundConfig, mean: Arrays
    ) -> tuple[bytes, Mapping[str, bytes]]:
        """Return the fleet's weights and the files that devices are given from here on."""
        names, extras = asked.class_names, dict(asked.extras)
        if asked.phase == FISHER:
            weights = asked.weights
            fisher = consolidated(asked.extras.get(FISHER), mean, names, asked.aliases)
            extras[FISHER] = encode_fisher(fisher, names)
        else:
            weights = encode_weights(mean, names)
        if asked.ends_stage and assignment.settings.needs_old_model:
            extras[OLD_MODEL] = weights
        return weights, extras


COORDINATOR = RoundsCoordinator()
