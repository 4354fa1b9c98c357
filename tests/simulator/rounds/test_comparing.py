"""What a round's answers held: the ensemble of the models and their mean, beside the outcome."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.registry import build_network
from fleetledger.methods.training.exchange import RoundParts
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.engines.network_inputs import inputs_of
from fleetledger.simulator.engines.network_meter import NetworkMeter
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.scenario.loading import load_scenario
from fleetledger.simulator.scenario.model import Scenario
from tests.methods.dcid import slow
from tests.simulator.rounds.small import Watching, distilling, prepared

pytestmark = pytest.mark.torch

ASKED = "evaluation.ensemble=true"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))


def compared(folder: Path, **settings: Any) -> StageRecord:
    """The second stage of a small fleet whose rounds are compared."""
    method = {"settings": settings}
    what = prepared(distilling(method=method, evaluation={"ensemble": True}))
    with closing(LightEngine(what, folder, Watching())) as engine:
        return [engine.learn(stage) for stage in what.plan.stages[:2]][1]


def test_every_round_tells_ensemble_mean_and_what_was_made_of_it(tmp_path: Path) -> None:
    settings = {"distil_norm": "train", "running_statistics": "sent", "distil_epochs": 8}
    record = compared(tmp_path, dcd=False, distil_rate=0.05, **settings)
    assert len(record.rounds) == 2
    for one in record.rounds:
        assert one.ensemble_accuracy is not None
        assert one.mean_accuracy is not None
        assert 0 <= one.ensemble_accuracy <= 1
    assert any(one.mean_accuracy != one.accuracy for one in record.rounds)


def test_where_nothing_is_distilled_the_mean_is_what_was_made(tmp_path: Path) -> None:
    record = compared(tmp_path, dcd=False, dad=False)
    assert [one.mean_accuracy for one in record.rounds] == [one.accuracy for one in record.rounds]


def test_the_ensemble_answers_by_the_sum_of_all_weighted_scores() -> None:
    what = prepared(distilling())
    names = what.plan.class_names
    network = build_network("mlp", (1, 8, 8), "linear")
    models = [network.initial(seed, names) for seed in (1, 2, 3)]
    weights = (1, 5, 2)
    mean = {name: sum(model[name] for model in models) / 3 for name in models[0]}
    found = NetworkMeter(what).parts_accuracy(network, names, RoundParts(models, weights, mean))
    sight, test = inputs_of(what), what.split.test
    pictures: Pictures | None = sight.pictures()
    assert pictures is not None
    images = sight.test(np.arange(len(test.labels)))
    scores = [slow.logits(network, model, pictures, images) for model in models]
    right = {"ensemble": 0, "mean": 0}
    alone = slow.logits(network, mean, pictures, images)
    for row, label in enumerate(test.labels):
        added = sum(w * own[row] for w, own in zip(weights, scores, strict=True))
        right["ensemble"] += int(np.argmax(added)) == label
        right["mean"] += int(np.argmax(alone[row])) == label
    assert found.ensemble == pytest.approx(right["ensemble"] / len(test.labels))
    assert found.mean == pytest.approx(right["mean"] / len(test.labels))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("engine.workers=2", "engine.workers 2"),
        ("engine.latency_ms=5", "engine.latency_ms 5"),
        ("engine.kind=mqtt", "engine.kind 'mqtt'"),
    ],
)
def test_models_are_compared_where_light_agents_train_in_this_process(
    change: str, told: str
) -> None:
    with pytest.raises(ScenarioError, match=f"evaluation.ensemble: true beside {told}"):
        load_scenario("digits-dcid", [ASKED, change])


@pytest.mark.parametrize("name", ["digits-fedavg", "digits", "digits-joint"])
def test_a_method_that_distils_no_ensemble_has_none_to_compare(name: str) -> None:
    with pytest.raises(ScenarioError, match=r"evaluation\.ensemble: true, but .* take 'dcid'"):
        load_scenario(name, [ASKED])


def test_nothing_is_compared_unless_it_is_asked_for() -> None:
    assert not load_scenario("digits-dcid").evaluation.ensemble
    with pytest.raises(ValidationError, match="ensemble"):
        Scenario.model_validate({"title": "a fleet", "evaluation": {"ensemble": "perhaps"}})
