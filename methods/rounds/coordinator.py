"""Rounds at the coordinator: check answers, and average them exactly.

    first_weights   the network before anybody trained, from a seed
    combine         theta = sum_k n_k theta_k / sum_k n_k, FedAvg's mean, over integers; and, after
                    a stage, a corrected head, the old model and the Fisher diagonal of some losses

Pure functions of bytes; no torch, but for synthetic images (`generator`).
"""

from __future__ import annotations

from collections.abc import Mapping

from fleetledger.learning.networks.head import BIAS, ROWS, WEIGHT, is_of_head
from fleetledger.learning.numerics.head_correction import aligned
from fleetledger.methods.rounds.assignment import (
    CALIBRATE,
    FISHER,
    OLD_MODEL,
    SYNTHETIC,
    RoundsAssignment,
)
from fleetledger.methods.rounds.fisher import consolidated, encode_fisher
from fleetledger.methods.rounds.messages import (
    BIAS_CORRECTION,
    encode_images,
    frame_of,
    received,
)
from fleetledger.methods.training.averaging import AveragingCoordinator
from fleetledger.methods.training.client_updates import Arrays, UpdateFrame
from fleetledger.methods.training.exchange import RoundConfig
from fleetledger.methods.training.network_weights import (
    decode_weights,
    encode_weights,
    first_rows,
)


class RoundsCoordinator(AveragingCoordinator[RoundsAssignment]):
    """Averages, and measures the Fisher diagonal where a loss needs it."""

    assignment_type = RoundsAssignment

    def frame(self, assignment: RoundsAssignment, config: RoundConfig) -> UpdateFrame:
        """Return what updates to a round look like."""
        sent = received(assignment, config.weights, config.weights_class_names, config.class_names)
        return frame_of(assignment, sent, config.phase)

    def after(
        self,
        assignment: RoundsAssignment,
        config: RoundConfig,
        mean: Arrays,
        extras: dict[str, bytes],
    ) -> tuple[bytes, Mapping[str, bytes]]:
        """Return the fleet's weights and the files that devices are given from here on."""
        names = config.class_names
        if config.phase == FISHER:
            weights = config.weights
            fisher = consolidated(config.extras.get(FISHER), mean, names, config.aliases)
            extras[FISHER] = encode_fisher(fisher, names)
        elif config.phase == CALIBRATE:
            weights = encode_weights(_calibrated(assignment, config, mean), names)
        else:
            weights = encode_weights({**_held(assignment, config), **mean}, names)
        if config.ends_stage and assignment.settings.calibration == "align":
            weights = encode_weights(_aligned(assignment, config, weights), names)
        if config.ends_stage and assignment.settings.needs_old_model:
            extras[OLD_MODEL] = weights
        if config.ends_stage and assignment.settings.generator is not None:
            from fleetledger.methods.rounds.generator import made_images  # noqa: PLC0415 - needs torch

            images = made_images(assignment, assignment.settings.generator, config, weights)
            extras[SYNTHETIC] = encode_images(images)
        return weights, extras


def _held(assignment: RoundsAssignment, config: RoundConfig) -> Arrays:
    """Return the tensors that were sent and are in no answer: a head that is not trained."""
    if assignment.settings.trained == "all":
        return {}
    sent = received(assignment, config.weights, config.weights_class_names, config.class_names)
    return {name: array for name, array in sent.items() if is_of_head(name)}


def _calibrated(assignment: RoundsAssignment, config: RoundConfig, mean: Arrays) -> Arrays:
    """Return the weights that were sent with the head of the devices' mean, or its bias mended."""
    sent = received(assignment, config.weights, config.weights_class_names, config.class_names)
    if assignment.settings.calibration == "refit":
        return {**sent, **mean}
    old, (alpha, beta) = _old_rows(assignment, config), mean[BIAS_CORRECTION]
    made = {name: sent[name].copy() for name in ROWS}
    for rows in made.values():
        rows[old:] *= alpha
    made[BIAS][old:] += beta
    return {**sent, **made}


def _aligned(assignment: RoundsAssignment, config: RoundConfig, weights: bytes) -> Arrays:
    """Return the weights with new rows as long as old ones on average."""
    arrays, _ = decode_weights(weights, assignment.network)
    return {**arrays, WEIGHT: aligned(arrays[WEIGHT], _old_rows(assignment, config))}


def _old_rows(assignment: RoundsAssignment, config: RoundConfig) -> int:
    """Return how many first rows of the head the model of the stage before had."""
    if OLD_MODEL not in config.extras:
        return 0
    arrays, written = decode_weights(config.extras[OLD_MODEL], assignment.network)
    return len(first_rows(arrays, written, config.class_names, config.aliases)[1])


COORDINATOR = RoundsCoordinator()
