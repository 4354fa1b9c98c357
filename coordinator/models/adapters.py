"""Adapter networks: each begins on top of a solved model, with the scores of that."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fleetledger.coordinator.core.work import PrepareAdapter
from fleetledger.coordinator.errors import NetworkSettingsError
from fleetledger.coordinator.models.file_offers import offer_of
from fleetledger.coordinator.topics.lineages.entries import FrozenBackbone, NetworkImported
from fleetledger.learning.networks.head import BIAS, WEIGHT
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.residual_adapter import CENTRE, SPREAD, ResidualAdapter
from fleetledger.methods.registry import training_coordinator
from fleetledger.methods.requirements import requirements
from fleetledger.methods.rounds.assignment import RoundsAssignment
from fleetledger.methods.statistics.sides import FeatureMoments
from fleetledger.methods.training.network_weights import encode_weights
from fleetledger.schemas.tensors import encode_tensors

METHOD = "rounds"
PRESET = "adapter"


def adapter_of(
    request: PrepareAdapter,
    weights: npt.NDArray[np.float32],
    moments: FeatureMoments,
    logit_scale: float,
) -> tuple[NetworkImported, tuple[bytes, bytes]]:
    """Return the adapter as it begins, and its files: what is trained, and what nobody trains.

    `weights` (C, M) is the head of the model that it goes on top of, which scores `logit_scale`
    times as high in a softmax; so do the adapter's own scores. Raises `MethodError` for the
    operator's settings, `NetworkSettingsError` where they name no adapter.
    """
    backbone = request.recipe.lineage
    side = training_coordinator(METHOD)
    settings = {"preset": PRESET, **request.settings}
    assignment = side.assign(settings, (backbone.feature_width,))
    assert isinstance(assignment, RoundsAssignment)
    network = assignment.network
    _check(network, assignment)
    base = {
        CENTRE: moments.centre.astype(np.float32),
        SPREAD: moments.spread.astype(np.float32),
    }
    first = {
        **network.initial(assignment.settings.seed, request.recipe.class_names),
        **_rows(weights, base, logit_scale),
    }
    files = (encode_weights(first, request.recipe.class_names), encode_tensors(base))
    imported = NetworkImported(
        name=assignment.settings.network,
        weights=offer_of(files[0]),
        class_names=request.recipe.class_names,
        golden=backbone.golden,
        preprocessing=backbone.preprocessing,
        method=METHOD,
        settings=assignment.model_dump(mode="json"),
        closing_phases=assignment.closing_phases,
        answer_privacy=assignment.privacy,
        backbone=FrozenBackbone(
            name=backbone.name, frozen=backbone.frozen, feature_width=backbone.feature_width
        ),
        base=offer_of(files[1]),
        adapts=request.adapts,
        requires=requirements(METHOD, assignment.settings.network),
    )
    return imported, files


def _check(network: Network, assignment: RoundsAssignment) -> None:
    if not isinstance(network.body, ResidualAdapter) or assignment.settings.head != "linear":
        raise NetworkSettingsError(
            f"adapter.settings: network {assignment.settings.network!r} with head "
            f"{assignment.settings.head!r} does not begin as the solved model; leave both out"
        )


def _rows(
    weights: npt.NDArray[np.float32], base: Mapping[str, npt.NDArray[np.float32]], scale: float
) -> dict[str, npt.NDArray[np.float32]]:
    """Return the head for (h - centre) / spread that scores as the solved one does for h."""
    scaled = weights.astype(np.float64) * scale
    rows = {WEIGHT: scaled * base[SPREAD], BIAS: scaled @ base[CENTRE].astype(np.float64)}
    return {name: row.astype(np.float32) for name, row in rows.items()}
