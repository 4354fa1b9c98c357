"""LGA at the coordinator: check answers, and average them exactly.

    first_weights   the network before anybody trained, from a seed
    combine         theta = sum_k theta_k / n, over integers; and, where there is no proxy to choose
                    them (ablation w/oPSR), old models drawn at random

Pure functions of bytes; no torch. Gradients of prototypes never come here.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleetledger.learning.networks.seeding import stream_key
from fleetledger.methods.lga.assignment import NEW_MODEL, OLD_MODEL, LgaAssignment
from fleetledger.methods.lga.messages import frame_of, received
from fleetledger.methods.training.averaging import AveragingCoordinator
from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.exchange import RoundConfig
from fleetledger.schemas.values import Digest


class LgaCoordinator(AveragingCoordinator[LgaAssignment]):
    """Averages, and draws old models where there is no proxy to choose them."""

    assignment_type = LgaAssignment

    def frame(self, assignment: LgaAssignment, config: RoundConfig) -> UpdateFrame:
        """Return what updates to a round look like."""
        sent = received(assignment, config.weights, config.weights_class_names, config.class_names)
        return frame_of(assignment, sent)

    def extras_after(
        self, assignment: LgaAssignment, config: RoundConfig, weights: bytes
    ) -> Mapping[str, bytes]:
        """Return old models drawn at random where no proxy chooses them."""
        settings = assignment.settings
        if settings.needs_old_model and not settings.has_proxy:
            return _drawn_models(settings.seed, config, weights)
        return {}


COORDINATOR = LgaCoordinator()


def _drawn_models(seed: int, config: RoundConfig, weights: bytes) -> dict[str, bytes]:
    """Return the old models that a stage's new model replaces.

    A reservoir of one: after r rounds each of the stage's r models is `new-model` with the same
    probability, 1 / r. With the first of a stage, that of the stage before becomes `old-model`.
    """
    if config.round_of_stage > 1:
        key = stream_key(seed, NEW_MODEL, config.round_of_stage, str(Digest.of(config.weights)))
        return {} if key % config.round_of_stage else {NEW_MODEL: weights}
    before = config.extras.get(NEW_MODEL)
    return {NEW_MODEL: weights} | ({} if before is None else {OLD_MODEL: before})
