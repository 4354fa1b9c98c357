"""Fleets on text: the same engines, and the same numbers as on devices."""

from __future__ import annotations

from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from rich.console import Console

from fleetledger.device_agent.samples.sources.cache import DigestCache
from fleetledger.device_agent.samples.sources.folder import FolderSource
from fleetledger.export.backbone import import_backbone
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.models import Manifest
from fleetledger.simulator.datasets.loading import load_split
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.mqtt.engine import MqttEngine
from fleetledger.simulator.engines.paths import index_of
from fleetledger.simulator.errors import BackboneError
from fleetledger.simulator.metrics.answers import Answers
from fleetledger.simulator.run.folder import RunFolder
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.run.runs import run_scenario
from fleetledger.simulator.scenario.model import Scenario
from tests.chaos.material import prepare as prepare_chaos
from tests.simulator.engines.mqtt.small import Quiet, prepare
from tests.simulator.text.making import GRAMMAR, one_hot, write_encoder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))


def scenario(folder: Path, **sections: Any) -> Scenario:
    content = {
        "title": "three speakers",
        "data": {"set": "grammar", "text": GRAMMAR},
        "stages": {"order": "as-is", "count": 2},
        "devices": {"count": 3, "partition": {"rule": "owner"}},
        "method": {"name": "stsa", "settings": {"map_width": 128, "form": "exact"}},
        "backbone": {"network": "file", "file": str(write_encoder(folder))},
    }
    return Scenario.model_validate(content | sections)


def quiet() -> Console:
    return Console(file=StringIO(), width=100)


def test_every_device_is_a_speaker_and_holds_what_that_one_said(tmp_path: Path) -> None:
    seed = PreparedSeed.load(scenario(tmp_path), 1)
    train = seed.split.train
    for stage in seed.plan.stages:
        for number, (_, device) in enumerate(sorted(stage.devices.items())):
            assert set(train.owners[device.indices]) == {number}


def test_the_bank_holds_what_the_encoder_gives_for_every_window(tmp_path: Path) -> None:
    prepared = prepare(scenario(tmp_path), tmp_path / "features")
    with closing(InProcessEngine(prepared, tmp_path / "fleet", Quiet())) as engine:
        record = engine.learn(prepared.plan.stages[0])
        folder = engine.model_folder(record)
        manifest = Manifest.read((folder / "manifest.json").read_bytes())
    assert manifest.preprocessing == prepared.preprocessing
    frozen = onnxruntime.InferenceSession(folder / manifest.frozen.digest)
    train = prepared.split.train
    expected = np.stack([one_hot(train.text(index)) for index in range(9)])
    imported = import_backbone(prepared.backbone, prepared.preprocessing)
    backbone = onnxruntime.InferenceSession(imported.model)
    ids = np.stack([preprocess(train.picture(i), manifest.preprocessing) for i in range(9)])
    assert np.array_equal(backbone.run(None, {"tokens": ids})[0], expected)
    assert frozen.run(None, {"tokens": ids})[0].shape == (9, 128)


@pytest.mark.parametrize("method", ["stsa", pytest.param("fedhaf", marks=pytest.mark.torch)])
def test_the_answers_are_those_of_the_exported_pair_run_text_by_text(
    tmp_path: Path, method: str
) -> None:
    settings = {"map_width": 128} if method == "stsa" else {"batch": 16, "head_epochs": 2}
    told = scenario(
        tmp_path, method={"name": method, "settings": settings}, rounds={"per_stage": 2}
    )
    run_scenario(told, tmp_path / "run", quiet())
    model = tmp_path / "run" / "seed-1" / "model"
    manifest = Manifest.read((model / "manifest.json").read_bytes())
    frozen = onnxruntime.InferenceSession(model / "frozen.onnx")
    head = onnxruntime.InferenceSession(model / "head.onnx")
    test = load_split(told.data, 1).test
    answers = RunFolder(tmp_path / "run").seed(1).kept().answers
    assert isinstance(answers, Answers)
    for index in range(0, len(test), 7):
        ids = preprocess(test.picture(index), manifest.preprocessing)[np.newaxis]
        (features,) = frozen.run(None, {"tokens": ids})
        scores = head.run(["scores"], {"features": features})[0][0]
        assert (
            manifest.class_names[scores.argmax()]
            == test.class_names[answers.predictions[-1][index]]
        )


def test_three_characters_before_tell_more_than_the_most_frequent_one(tmp_path: Path) -> None:
    results = run_scenario(scenario(tmp_path), tmp_path / "run", quiet())
    test = load_split(scenario(tmp_path).data, 1).test
    most_frequent = np.bincount(test.labels).max() / len(test)
    assert results is not None
    answers = RunFolder(tmp_path / "run").seed(1).kept().answers
    assert answers is not None
    truth, predicted = answers.answered(2)
    assert (truth == predicted).mean() > 1.5 * most_frequent


def test_text_needs_an_encoder_and_says_so(tmp_path: Path) -> None:
    for told in (
        scenario(tmp_path, backbone={}),
        scenario(tmp_path, backbone={}, method={"name": "rounds"}),
    ):
        with pytest.raises(BackboneError, match="'pixels', but the samples are texts"):
            PreparedSeed.load(told, 1)
    of_a_size = scenario(
        tmp_path, backbone={"network": "file", "file": str(write_encoder(tmp_path)), "size": 32}
    )
    with pytest.raises(BackboneError, match=r"size: 32, but one-hot\.onnx takes texts"):
        PreparedSeed.load(of_a_size, 1)


def test_fleets_that_are_troubled_get_the_same_files(tmp_path: Path) -> None:
    material = prepare_chaos(scenario(tmp_path), tmp_path / "material")
    device, stage = material.plan.devices[0], material.plan.stages[0]
    home = material.make_agent(device, tmp_path / "homes" / "agent")
    material.deliver(stage, home)
    indices = stage.devices[device].indices
    files = sorted(home.data_folder.rglob("*.txt"))
    train = material.split.train
    assert {index_of(str(path)) for path in files} == set(indices)
    assert all(path.read_bytes() == train.picture(index_of(str(path))) for path in files)
    source = FolderSource(
        home.data_folder,
        DigestCache(tmp_path / "seen.db"),
        kind=home.settings.data.kind,
    )
    assert len(source.scan().images) == len(indices)


class Watching(Quiet):
    """Says nothing of rounds either."""

    def round(self, done: int, total: int) -> None:
        self.seen.append(f"round {done} of {total}")


@pytest.mark.broker
@pytest.mark.parametrize(
    "method", ["stsa", pytest.param("fedhaf", marks=(pytest.mark.torch, pytest.mark.nightly))]
)
def test_real_agents_on_txt_files_come_to_the_same_digests(tmp_path: Path, method: str) -> None:
    settings = {"map_width": 128} if method == "stsa" else {"batch": 16, "head_epochs": 2}
    told = scenario(
        tmp_path, method={"name": method, "settings": settings}, rounds={"per_stage": 2}
    )
    prepared = prepare(told, tmp_path / "features")
    digests = []
    for make in (InProcessEngine, MqttEngine):
        with closing(make(prepared, tmp_path / make.__name__ / "seed-1", Watching())) as engine:
            records = [engine.learn(stage) for stage in prepared.plan.stages]
        digests.append([(record.aggregate, record.head) for record in records])
    assert digests[0] == digests[1]
    assert list((tmp_path / "MqttEngine").rglob("stage-01-*.txt"))
