"""A repository that Triton's documentation describes; Triton itself does not run here."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import fleetledger
from device_agent.serving.frames import input_of
from device_agent.serving.leases import take_lease
from device_agent.serving.published import PublishedModels
from device_agent.serving.triton import TritonRepository
from device_agent.settings import ModelSettings
from device_agent.slots import Slot
from learning.onnx_files.reading import OnnxFile, OnnxValue
from tests.device_agent import models
from tests.device_agent.scenes import dense
from tests.device_agent.serving.homes import ServingHome
from tests.device_agent.serving.test_running_model import dark, exported
from tests.device_agent.serving.triton_config import read_config

TRITON = ModelSettings(layout="triton", batch=4)


@pytest.fixture
def home(tmp_path: Path) -> ServingHome:
    return ServingHome(tmp_path / "agent-home", TRITON)


def repository(home: ServingHome) -> Path:
    return home.folder / "current" / "triton"


def configs(home: ServingHome) -> dict[str, Any]:
    return {item.name: read_config(item / "config.pbtxt") for item in repository(home).iterdir()}


def run(folder: Path, sample: np.ndarray) -> dict[str, np.ndarray]:
    """Do what Triton's ensemble scheduler does: each step once its inputs are there."""
    active = read_config(folder / "active" / "config.pbtxt")
    tensors = {active.input[0].name: sample}
    for step in active.ensemble_scheduling.step:
        part = read_config(folder / step.model_name / "config.pbtxt")
        assert part.name == step.model_name
        model = onnxruntime.InferenceSession(
            folder / step.model_name / "1" / "model.onnx", providers=["CPUExecutionProvider"]
        )
        check_shapes(part, model)
        given = {entry.key: tensors[entry.value] for entry in step.input_map}
        assert {one.name for one in part.input} == set(given), "an ensemble feeds every input"
        names = [entry.key for entry in step.output_map]
        found = zip(step.output_map, model.run(names, given), strict=True)
        tensors |= {entry.value: value for entry, value in found}
    return {output.name: tensors[output.name] for output in active.output}


def check_shapes(part: Any, model: onnxruntime.InferenceSession) -> None:
    """Compare as Triton's backend does: free axes first, then what the file declares."""
    declared = {value.name: value.shape for value in (*model.get_inputs(), *model.get_outputs())}
    for tensor in (*part.input, *part.output):
        batch, *axes = declared[tensor.name]
        assert not isinstance(batch, int)
        assert list(tensor.dims) == axes


def test_the_repository_is_that_of_the_documentation(home: ServingHome) -> None:
    home.switch(exported(1))
    found = configs(home)
    (frozen,), (head,) = (
        [name for name in found if name.startswith(kind)] for kind in ("frozen-", "head-")
    )
    assert sorted(found) == ["active", frozen, head]
    assert all(found[name].name == name and found[name].max_batch_size == 4 for name in found)
    assert found["active"].platform == "ensemble"
    assert not found["active"].instance_group, "an ensemble has none"
    assert {found[name].platform for name in (frozen, head)} == {"onnxruntime_onnx"}
    kind = type(found[head].instance_group[0]).DESCRIPTOR.fields_by_name["kind"].enum_type
    assert found[head].instance_group[0].kind == kind.values_by_name["KIND_CPU"].number
    assert [item.name for item in (repository(home) / "active").iterdir() if item.is_dir()] == ["1"]
    for name in ("active", head):
        labels = {output.label_filename for output in found[name].output}
        assert labels == {"labels.txt"}
        assert (repository(home) / name / "labels.txt").read_text() == "dark\nlight\n"


def test_the_ensemble_answers_as_the_agents_own_model(home: ServingHome) -> None:
    home.switch(exported(1))
    with fleetledger.active_model(home.folder) as model:
        loaded = model.loaded()
        sample = input_of(dark(), loaded.manifest.preprocessing)[np.newaxis]
        expected = loaded.tensors(sample)
    found = run(repository(home), sample)
    assert sorted(found) == ["probabilities", "scores"]
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-5)


def test_a_model_of_pixels_has_scores_and_no_labels(home: ServingHome) -> None:
    home.switch(dense.exported())
    found = configs(home)["active"]
    assert ([output.name for output in found.output], found.max_batch_size) == (["scores"], 1)
    assert found.output[0].label_filename == ""
    with fleetledger.active_model(home.folder) as model:
        loaded = model.loaded()
        picture = np.asarray(dense.painted(dense.blocks(0, 1, 2, 0, height=40, width=64)))
        sample = input_of(picture, loaded.manifest.preprocessing)[np.newaxis]
        expected = loaded.tensors(sample)["scores"]
    np.testing.assert_allclose(run(repository(home), sample)["scores"], expected, rtol=1e-5)


def test_model_files_take_no_space_of_their_own(home: ServingHome) -> None:
    home.switch(exported(1))
    for file in repository(home).rglob("model.onnx"):
        assert file.stat().st_nlink == 3


def newest(folder: Path) -> int:
    """Return what Triton's poll compares: the newest time of a model's folder and all in it."""
    return max(item.stat().st_mtime_ns for item in (folder, *folder.rglob("*")))


def test_a_switch_is_seen_and_the_frozen_part_is_not_loaded_again(home: ServingHome) -> None:
    """Triton loads a model of a name again when something in it became newer."""
    times, frozen = [], set()
    for version in (1, 2, 3):
        home.switch(exported(version))
        times.append(newest(repository(home) / "active"))
        (part,) = repository(home).glob("frozen-*")
        frozen.add((part.name, newest(part)))
    home.slots.go_back()
    home.published.follow()
    assert read_config(repository(home) / "active" / "config.pbtxt").name == "active"
    assert [item.name for item in (repository(home) / "active").iterdir() if item.is_dir()] == ["2"]
    times.append(newest(repository(home) / "active"))
    assert times == sorted(set(times)), "each is newer, a former version too"
    assert len(frozen) == 1


def stages(home: ServingHome, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Cut the power at each step of publishing, one after the other."""
    replace, count = os.fsync, [0]

    def cut(handle: int) -> None:
        count[0] -= 1
        if count[0] < 0:
            raise OSError(5, "the power went")
        replace(handle)

    monkeypatch.setattr(os, "fsync", cut)
    for steps in range(200):
        count[0] = steps
        yield steps
        if count[0] >= 0:
            return


def test_whenever_the_power_goes_current_has_a_whole_repository(
    home: ServingHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.switch(exported(1))
    seen = []
    models.store_model(home.blobs, exported(2))
    home.blobs.settle()
    home.slots.install(Slot.of(exported(2).manifest))
    for _ in stages(home, monkeypatch):
        fresh = PublishedModels(home.folder, home.blobs, home.slots, TRITON)
        fresh.follow(thorough=True)
        ((version,),) = [
            [item.name for item in (repository(home) / "active").iterdir() if item.is_dir()]
        ]
        seen.append(version)
        run(repository(home), np.zeros((1, 1, 8, 8), np.float32))
    assert seen == sorted(seen)
    assert set(seen) == {"1", "2"}
    assert len(home.folders()) == 2


def test_a_folder_of_before_gets_its_repository_when_the_owner_asks_for_it(tmp_path: Path) -> None:
    home = ServingHome(tmp_path / "agent-home")
    home.switch(exported(1))
    assert not repository(home).exists()
    lease = take_lease(home.folder)
    fresh = PublishedModels(home.folder, home.blobs, home.slots, TRITON)
    fresh.follow(thorough=True)
    assert sorted(item.name for item in repository(home).iterdir())[0] == "active"
    assert (lease.folder / "triton").is_dir(), "the leased folder stays where it is"
    label = repository(home) / "active" / "labels.txt"
    label.write_text("other")
    fresh.follow(thorough=True)
    assert label.read_text() == "dark\nlight\n"


def test_a_folder_with_a_repository_goes_as_a_whole(home: ServingHome) -> None:
    for version in (1, 2, 3):
        home.switch(exported(version))
    assert len(home.folders()) == 2
    assert not [name for name in home.folders() if name.startswith(".")]


def test_files_with_a_fixed_number_of_samples_are_no_batches() -> None:
    manifest = exported(1).manifest
    frozen = OnnxFile(
        (OnnxValue('in"put\n', 1, (1, 1, 8, None)),), (OnnxValue("features", 1, (1, 64)),), 1
    )
    head = OnnxFile(
        (OnnxValue("features", 1, (None, 64)),), (OnnxValue("scores", 1, (None, 2)),), 1
    )
    made = TritonRepository.of(manifest, frozen, head, 8)
    text = made.texts["active/config.pbtxt"]
    assert "max_batch_size: 0" in text
    assert "dims: [ 1, 1, 8, -1 ]" in text
    assert 'name: "in\\"put\\012"' in text
