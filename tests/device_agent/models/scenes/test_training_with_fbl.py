"""FBL on a device: a folder of scenes becomes an answer of a round."""

from pathlib import Path

import numpy as np
import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import TrainingJob
from fleetledger.device_agent.core.requests import Train
from fleetledger.methods.fbl.coordinator import COORDINATOR
from tests.device_agent import model_files as models
from tests.device_agent.making import part_key, round_order, training
from tests.device_agent.models.scenes.dense import COLOUR, blocks, put_scene
from tests.device_agent.models.scenes.test_evaluating import Darkroom

SETTINGS = {"network": "small_dense", "epochs": 1, "batch": 2, "first_rate": 0.01}


@pytest.fixture
def darkroom(tmp_path: Path) -> Darkroom:
    return Darkroom(tmp_path)


def train(darkroom: Darkroom, *names: str) -> tuple[inputs.Input, ...]:
    """Ask for a first round in which the head has these classes."""
    own = COORDINATOR.assign(SETTINGS, COLOUR.shape)
    weights = COORDINATOR.first_weights(own)
    darkroom.blobs.put(weights)
    stages = (1,) * len(names)
    order = round_order(1, *names, weights=models.offer_of(weights), class_stages=stages)
    asked = training(order).model_copy(
        update={
            "method": "fbl",
            "settings": own.model_dump(mode="json"),
            "preprocessing": COLOUR,
        }
    )
    job = TrainingJob(part_key(1, 1), "train", "fbl", asked.lineage)
    return darkroom.jobs.answer(Train(job, asked, darkroom.images(), None))


@pytest.mark.torch
def test_scenes_of_the_stage_are_trained_on_and_counted(darkroom: Darkroom) -> None:
    put_scene(darkroom.home.data_folder, "sky", blocks(3, 0))
    (event,) = train(darkroom, "green", "red")
    assert isinstance(event, inputs.TrainingFinished), event
    assert event.answer.samples == sum(event.contribution.samples.values()) == 3
    assert set(event.contribution.samples) <= {"green", "red"}
    assert event.answer.loss is not None
    assert np.isfinite(event.answer.loss)
    assert event.contribution.payload_kind == "weights"


@pytest.mark.torch
def test_a_device_without_scenes_of_the_stage_has_nothing_to_train(darkroom: Darkroom) -> None:
    (event,) = train(darkroom, "blue")
    assert isinstance(event, inputs.NothingToTrain), event
