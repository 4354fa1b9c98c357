"""Where a device trains and how precisely: what its owner sets reaches the engine."""

from pathlib import Path

import pytest
import torch

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.models.training import engine_settings
from fleetledger.device_agent.settings import AgentTrainingSettings
from fleetledger.learning.errors import TrainingError
from fleetledger.learning.training import loop, stepping
from tests.device_agent.models.test_training_with_lga import School

pytestmark = pytest.mark.torch


@pytest.fixture
def school(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> School:
    return School(tmp_path)


def gpus(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)


@pytest.mark.parametrize(
    ("asked", "there", "used"),
    [("auto", True, "cuda"), ("auto", False, "cpu"), ("cpu", True, "cpu"), ("cuda", True, "cuda")],
)
def test_auto_takes_a_gpu_where_there_is_one(monkeypatch, asked, there, used):
    gpus(monkeypatch, there)
    assert engine_settings(AgentTrainingSettings(device=asked)).device == used


def test_a_gpu_that_is_not_there_is_told_with_the_way_out(monkeypatch):
    gpus(monkeypatch, there=False)
    with pytest.raises(TrainingError, match=r"device: cuda.*; set cpu or auto"):
        engine_settings(AgentTrainingSettings(device="cuda"))


def test_precision_and_memory_of_a_look_are_the_owners(monkeypatch):
    gpus(monkeypatch, there=False)
    settings = engine_settings(AgentTrainingSettings(bfloat16=True, inference_batch=3))
    assert (settings.engine, settings.autocast, settings.inference_batch) == ("loop", True, 3)


def test_a_training_computes_as_the_home_says(school, monkeypatch):
    seen = []

    def watched(work, settings):
        seen.append(settings)
        return train_alone(work, settings)

    train_alone = loop.train_alone
    monkeypatch.setattr(loop, "train_alone", watched)
    home = school.jobs._home
    chosen = AgentTrainingSettings(device="cpu", bfloat16=True)
    changed = home.settings.model_copy(update={"training": chosen})
    monkeypatch.setattr(school.jobs, "_home", AgentHome(home.folder, changed))
    answer = school.ask(1, None, publishes=False)
    assert isinstance(answer, inputs.TrainingFinished)
    assert [(one.device, one.autocast) for one in seen] == [("cpu", True)]


def test_a_gpu_whose_memory_is_too_small_can_be_tried_again(school, monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(stepping, "slope_of", full)
    answer = school.ask(1, None, publishes=False)
    assert isinstance(answer, inputs.TrainingFailed)
    assert "no room for 4 images" in answer.reason
    assert not answer.hopeless
