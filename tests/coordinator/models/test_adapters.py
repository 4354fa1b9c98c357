"""An adapter begins as the model that it goes on top of, whatever the operator sets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fleetledger.coordinator.core.work import PrepareAdapter, SolveHead
from fleetledger.coordinator.errors import NetworkSettingsError
from fleetledger.coordinator.models.adapters import adapter_of
from fleetledger.coordinator.topics.lineages.entries import Adapts, NetworkImported
from fleetledger.export.network_head import NetworkHead
from fleetledger.methods.errors import MethodError
from fleetledger.methods.registry import training_coordinator
from fleetledger.methods.statistics.sides import FeatureMoments
from fleetledger.methods.stsa.coordinator import COORDINATOR
from fleetledger.methods.training.network_weights import decode_base, decode_weights
from fleetledger.schemas.rollouts import Share
from fleetledger.schemas.values import ClassName, Digest
from tests.coordinator.core.harness import BACKBONE
from tests.methods.stsa.fleet import assignment, make_samples, payloads, summed

TOLD = assignment({"map": "none", "form": "exact"})
SAMPLES = make_samples(TOLD, 200, classes=4)
NAMES = tuple(ClassName(f"class {number}") for number in range(4))
TOTAL = summed(TOLD, payloads(TOLD, SAMPLES, [np.arange(200)]))
WEIGHTS = COORDINATOR.solve(TOLD, TOTAL, NAMES).weights
MOMENTS = COORDINATOR.feature_moments(TOLD, TOTAL)
SCALE = 12.5
REQUEST = PrepareAdapter(
    adapts=Adapts(version=3, judges=Share(salt="adapter-3", below=5)),
    recipe=SolveHead(
        version=3,
        lineage=BACKBONE.model_copy(update={"feature_width": TOLD.columns}),
        ledger_size=0,
        class_names=NAMES,
        resolution={},
    ),
    head=Digest.of(b"head"),
    logit_scale=None,
    settings={},
)


def made(**settings: Any) -> tuple[NetworkImported, NetworkHead]:
    imported, (weights, base) = adapter_of(
        replace(REQUEST, settings=settings), WEIGHTS, MOMENTS, SCALE
    )
    side = training_coordinator(imported.method)
    network = side.read_assignment(imported.settings).network
    arrays, names = decode_weights(weights, network)
    assert names == imported.class_names == NAMES
    assert imported.backbone is not None
    fixed = decode_base(base, network)
    return imported, NetworkHead(network, arrays, imported.backbone.feature_width, fixed)  # type: ignore[arg-type]


def test_it_scores_as_the_solved_head_does_at_the_scale_of_its_softmax() -> None:
    _, head = made()
    features = make_samples(TOLD, 50, classes=4, seed=9).features
    scores = SCALE * features.astype(np.float64) @ WEIGHTS.T.astype(np.float64)
    assert np.abs(head.expected(features) - scores).max() <= 1e-5 * np.abs(scores).max()


def test_it_is_trained_on_the_features_of_the_frozen_model_and_names_what_it_is_on_top_of() -> None:
    imported, _ = made(rate=0.5)
    assert imported.backbone is not None
    assert imported.backbone.frozen == BACKBONE.frozen
    assert imported.adapts == REQUEST.adapts
    assert (imported.settings["settings"]["rate"], imported.settings["settings"]["trained"]) == (
        0.5,
        "body",
    )


@pytest.mark.parametrize("settings", [{"network": "fam"}, {"head": "cosine"}])
def test_what_would_not_begin_as_the_solved_head_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(NetworkSettingsError, match="does not begin as the solved model"):
        made(**settings)


def test_a_setting_that_there_is_not_is_named() -> None:
    with pytest.raises(MethodError, match="momentumm"):
        made(momentumm=0.9)


def test_sums_that_do_not_tell_how_features_spread_give_no_adapter() -> None:
    from fleetledger.methods.fedncm.coordinator import COORDINATOR as FEDNCM

    with pytest.raises(MethodError, match="sums of Fedncm do not tell"):
        FEDNCM.feature_moments(FEDNCM.assign({}, 4), None)  # type: ignore[arg-type]


def test_an_equal_request_gives_equal_files() -> None:
    assert adapter_of(REQUEST, WEIGHTS, MOMENTS, SCALE) == adapter_of(
        REQUEST, WEIGHTS, FeatureMoments(MOMENTS.centre, MOMENTS.spread), SCALE
    )
