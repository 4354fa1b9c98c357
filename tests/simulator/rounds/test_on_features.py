"""Networks that are trained on features of a frozen one: the same numbers, computed once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.methods.errors import MethodError
from fleetledger.methods.fedhaf.memory import read_memory
from fleetledger.schemas.models import Manifest
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.network_inputs import inputs_of
from fleetledger.simulator.engines.network_meter import NetworkMeter
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.features.extraction import BatchExtractor
from fleetledger.simulator.run.folder import RunFolder
from fleetledger.simulator.run.progress import Budget
from fleetledger.simulator.run.runs import RunOptions, resume_run, run_scenario
from tests.simulator.rounds.small import (
    Watching,
    final_weights,
    learn,
    on_features,
    prepared,
    rounds_by_hand,
)
from tests.simulator.rounds.whole_runs import check_answers, quiet

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("own_cache")]


def test_every_round_comes_to_the_digests_of_both_sides_on_features(tmp_path: Path) -> None:
    what = prepared(on_features(rounds={"per_stage": 2, "participation": 0.6}))
    compared = rounds_by_hand(what, tmp_path)
    assert len(compared) == 4
    for fleet, hand in compared:
        assert fleet == hand


def test_the_network_sees_what_the_frozen_model_puts_out(tmp_path: Path) -> None:
    what = prepared(on_features())
    sight = inputs_of(what)
    train = what.split.train
    indices = np.flatnonzero(train.labels < 4)[:5]
    seen = sight.train(indices)
    pixels = [np.asarray(train.picture(int(index)), np.float32) / 255 for index in indices]
    assert sight.shape == (64,)
    assert sight.pictures() is None
    np.testing.assert_array_equal(seen, np.stack(pixels).reshape(5, 64))


@pytest.mark.parametrize(
    "method", [pytest.param("rounds", marks=pytest.mark.nightly), "fedhaf", "joint"]
)
def test_the_answers_are_those_of_the_exported_pair_run_image_by_image(
    tmp_path: Path, method: str
) -> None:
    scenario = on_features(method, rounds={"per_stage": 2})
    results = run_scenario(scenario, tmp_path / "run", quiet())
    check_answers(scenario, tmp_path / "run" / "seed-1")
    stage = results.seeds[1].stages[-1]
    assert stage.accuracy == pytest.approx(stage.rounds[-1].accuracy)


def test_only_the_trained_network_moves_from_version_to_version(tmp_path: Path) -> None:
    what = prepared(on_features("fedhaf", rounds={"per_stage": 1}))
    engine = InProcessEngine(what, tmp_path, Watching())
    manifests = [
        Manifest.read((engine.model_folder(engine.learn(stage)) / "manifest.json").read_bytes())
        for stage in what.plan.stages
    ]
    engine.close()
    one, two = manifests
    assert one.frozen.digest == two.frozen.digest == one.lineage
    assert one.head.digest != two.head.digest


@pytest.mark.parametrize("method", [pytest.param("rounds", marks=pytest.mark.nightly), "fedhaf"])
def test_loop_and_stack_train_nearly_the_same_network(tmp_path: Path, method: str) -> None:
    found = {
        kind: final_weights(
            prepared(on_features(method, engine={"training": kind}, rounds={"per_stage": 2})),
            tmp_path / kind,
        )
        for kind in ("loop", "stack")
    }
    for name, array in found["loop"].items():
        np.testing.assert_allclose(found["stack"][name], array, atol=1e-3)


def test_pictures_are_seen_once_however_many_rounds_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, seen = BatchExtractor._run, []

    def counted(self, samples):
        seen.extend(samples)
        return run(self, samples)

    monkeypatch.setattr(BatchExtractor, "_run", counted)
    what = prepared(on_features("fedhaf", rounds={"per_stage": 3}))
    extracted = len(seen)
    learn(what, tmp_path / "run")
    NetworkMeter(what)
    used = sum(len(part) for part in (what.split.train, what.split.test))
    assert 0 < extracted <= used
    # What is seen after that are probes: whether the frozen model gives what the bank holds.
    assert len(seen) - extracted <= 3 * 8


def test_a_device_is_charged_once_for_the_features_of_an_image(tmp_path: Path) -> None:
    what = prepared(on_features(rounds={"per_stage": 3}))
    engine = InProcessEngine(what, tmp_path, Watching())
    engine.learn(what.plan.stages[0])
    for device in engine._fleet.devices.values():
        assert len(device.jobs._seen) == 8
    engine.close()


def test_exemplars_kept_as_features_train_the_same_network(tmp_path: Path) -> None:
    heads, memories = {}, {}
    for kept in ("images", "features"):
        devices = {"count": 3, "partition": {"rule": "iid"}, "exemplars": kept}
        what = prepared(on_features("fedhaf", devices=devices, rounds={"per_stage": 2}))
        records, _ = learn(what, tmp_path / kept)
        heads[kept] = [record.head for record in records]
        memories[kept] = _features_in_memory(tmp_path / kept)
        assert records[-1].devices["device-1"].stored_samples > 0  # type: ignore[index]
    assert heads["images"] == heads["features"]
    assert memories["images"] == 0
    assert memories["features"] > 0


@pytest.mark.nightly  # test_resuming.py by day
@pytest.mark.parametrize("method", ["fedhaf", "joint"])
def test_a_run_with_a_small_budget_gets_to_the_end_round_by_round(
    tmp_path: Path, method: str
) -> None:
    scenario = on_features(method, rounds={"per_stage": 2})
    run_scenario(scenario, tmp_path / "whole", quiet())
    out = tmp_path / "pieces"
    with pytest.raises(RunError, match=r"budget: 0 s are spent"):
        run_scenario(scenario, out, quiet(), options=RunOptions(Budget(0)))
    pieces = 1
    while not (out / "results.json").exists():
        assert pieces < 6
        try:
            resume_run(out, quiet(), options=RunOptions(Budget(0)))
        except RunError:
            pieces += 1
    assert pieces >= 3
    whole, ended = (RunFolder(tmp_path / name).seed(1).records() for name in ("whole", "pieces"))
    assert [record.head for record in whole] == [record.head for record in ended]


@pytest.mark.nightly  # on images by day, in test_runs.py
def test_joint_training_on_features_remembers_what_federated_averaging_forgets(
    tmp_path: Path,
) -> None:
    ends = {}
    for method in ("rounds", "joint"):
        scenario = on_features(method, rounds={"per_stage": 4})
        ends[method] = run_scenario(scenario, tmp_path / method, quiet()).seeds[1].stages[-1]
    assert ends["joint"].old_accuracy > 0.8
    assert ends["rounds"].old_accuracy < 0.5


def test_the_ledger_names_the_backbone(tmp_path: Path) -> None:
    what = prepared(on_features("fedhaf", rounds={"per_stage": 1}))
    _, ledger = learn(what, tmp_path)
    (network,) = [body for body in ledger if isinstance(body, NetworkImported)]
    assert network.backbone is not None
    assert (network.backbone.name, network.backbone.feature_width) == ("pixels", 64)


def _features_in_memory(folder: Path) -> int:
    """Return the number of exemplars whose features lie in the devices' newest memories."""
    kept = 0
    for path in folder.glob("files/**/*"):
        data = path.read_bytes() if path.is_file() else b""
        try:
            memory = read_memory(data, 64)
        except MethodError:
            continue
        kept += sum(item.features is not None for item in memory.classes.values())
    return kept
