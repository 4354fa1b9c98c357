"""Rounds at the coordinator: check answers, and average them exactly.

    first_weights   the network before anybody trained, from a seed
    combine         theta = sum_k n_k theta_k / sum_k n_k, FedAvg's mean, over integers; and, after
                    a stage, the old model and the Fisher diagonal that some losses need

Pure functions of bytes; no torch.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fleetledger.learning.networks.head import is_of_head
from fleetledger.methods.errors import MethodError
from fleetledger.methods.rounds.assignment import FISHER, OLD_MODEL, RoundsAssignment
from fleetledger.methods.rounds.fisher import consolidated, encode_fisher
from fleetledger.methods.rounds.messages import frame_of, received
from fleetledger.methods.rounds.steps import Rounds
from fleetledger.methods.steps import assignment_of
from fleetledger.methods.training.averaging import AveragingCoordinator
from fleetledger.methods.training.client_updates import Arrays, UpdateFrame
from fleetledger.methods.training.exchange import RoundConfig
from fleetledger.methods.training.network_weights import encode_weights
from fleetledger.schemas.rounds import TRAIN


class RoundsCoordinator(AveragingCoordinator[RoundsAssignment]):
    """Averages, and measures the Fisher diagonal where a loss needs it."""

    def __init__(
        self,
        steps: type[Rounds] = Rounds,
        assignment_type: type[RoundsAssignment] = RoundsAssignment,
    ) -> None:
        """Take the steps of a method of one's own, whose settings its assignments have."""
        super().__init__()
        self._steps, self.assignment_type = steps, assignment_type

    def with_steps(self, steps: type[Rounds], name: str) -> RoundsCoordinator:
        """Return the coordinator side of a method of one's own."""
        return RoundsCoordinator(steps, assignment_of(RoundsAssignment, steps, name))

    def check(self, assignment: RoundsAssignment, payload: bytes, config: RoundConfig) -> None:
        """Raise `ContributionError` unless the payload answers what was asked.

        An own check sees the weights of an answer whose form is right.
        """
        frame = self._frame(assignment, config)
        if config.phase != TRAIN or not self._steps.changes("check"):
            frame.check(payload)
            return
        self._steps.of(assignment.settings).check(frame.arrays(payload), frame.sent)

    def frame(self, assignment: RoundsAssignment, config: RoundConfig) -> UpdateFrame:
        """Return what updates to a round look like."""
        sent = received(assignment, config.weights, config.weights_class_names, config.class_names)
        return frame_of(assignment, sent, config.phase)

    def after(
        self, assignment: RoundsAssignment, config: RoundConfig, mean: Arrays
    ) -> tuple[bytes, Mapping[str, bytes]]:
        """Return the fleet's weights and the files that devices are given from here on."""
        names, extras = config.class_names, dict(config.extras)
        if config.phase == FISHER:
            weights = config.weights
            fisher = consolidated(config.extras.get(FISHER), mean, names, config.aliases)
            extras[FISHER] = encode_fisher(fisher, names)
        else:
            if self._steps.changes("combine"):
                mean = self._combined(assignment, config, mean, extras)
            weights = encode_weights({**_held(assignment, config), **mean}, names)
        if config.ends_stage and assignment.settings.needs_old_model:
            extras[OLD_MODEL] = weights
        return weights, extras

    def _combined(
        self,
        assignment: RoundsAssignment,
        config: RoundConfig,
        mean: Arrays,
        extras: dict[str, bytes],
    ) -> Arrays:
        """Return what an own step makes of the mean; raise `MethodError` for other tensors."""
        steps, sent = self._steps.of(assignment.settings), self._frame(assignment, config).sent
        made = steps.combine(mean, sent, extras)
        found = {name: np.asarray(made.get(name)) for name in mean}
        for name, array in mean.items():
            if found[name].shape != array.shape:
                raise MethodError(
                    f"combine: {type(steps).__name__} gives no {name!r} of shape {array.shape}; "
                    "give every tensor of the mean"
                )
            if not np.isfinite(found[name]).all():
                raise MethodError(
                    f"combine: {type(steps).__name__} gives {name!r} with numbers that are not "
                    "finite; give finite ones"
                )
        return {name: found[name].astype(array.dtype) for name, array in mean.items()}


def _held(assignment: RoundsAssignment, config: RoundConfig) -> Arrays:
    """Return the tensors that were sent and are in no answer: a head that is not trained."""
    if assignment.settings.trained == "all":
        return {}
    sent = received(assignment, config.weights, config.weights_class_names, config.class_names)
    return {name: array for name, array in sent.items() if is_of_head(name)}


COORDINATOR = RoundsCoordinator()
