"""Device jobs give scenes to a method that segments, and report what is wrong with them."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import TrainingJob
from fleetledger.device_agent.core.requests import Train
from fleetledger.device_agent.models.self_test import self_test
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.methods.training.exchange import LocalData
from fleetledger.schemas.values import ClassName
from tests.device_agent import model_files as models
from tests.device_agent.making import part_key, round_order, training
from tests.device_agent.models import watching_method
from tests.device_agent.models.scenes import dense
from tests.device_agent.models.scenes.dense import COLOUR, GREEN, RED, put_scene
from tests.device_agent.models.scenes.test_evaluating import Darkroom

WEIGHTS = b"the fleet's model"
FOX = ClassName("fox")


class School(Darkroom):
    """Jobs that are asked to look at its scenes with a method that segments."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder)
        self.blobs.put(WEIGHTS)
        side = watching_method.install(monkeypatch)
        descriptor = replace(watching_method.DESCRIPTOR, segments=True)
        monkeypatch.setattr(
            sys.modules[f"fleetledger.methods.{watching_method.NAME}"], "DESCRIPTOR", descriptor
        )
        self.given: list[LocalData] = []
        monkeypatch.setattr(side, "observe", self._observe)
        self._side = side

    def _observe(self, told, order, data, memory, pictures, engine):
        self.given.append(data)
        return watching_method.WatchingDevice.observe(
            self._side, told, order, data, memory, pictures
        )

    def look(self) -> tuple[inputs.Input, ...]:
        order = round_order(
            3,
            "fox",
            "green",
            weights=models.offer_of(WEIGHTS),
            observes=True,
            aliases={"red": "fox"},
        )
        asked = training(order).model_copy(
            update={"method": watching_method.NAME, "preprocessing": COLOUR}
        )
        job = TrainingJob(part_key(1, 3), "train", asked.method, asked.lineage, observes=True)
        return self.jobs.answer(Train(job, asked, self.images(), None))


@pytest.fixture
def school(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> School:
    return School(tmp_path, monkeypatch)


@pytest.mark.torch
def test_the_method_gets_pictures_with_masks_under_the_names_of_now(school: School) -> None:
    (event,) = school.look()
    assert isinstance(event, inputs.NoveltyChecked), event
    (data,) = school.given
    assert event.observation.images == len(data) == 3
    assert data.masks is not None
    assert data.masks.shape == (3, *COLOUR.size)
    assert data.mask_class_names == ("blue", FOX, GREEN)
    assert data.class_names == (FOX, FOX, FOX)
    assert data.digests == tuple(image.digest for image in school.images())


@pytest.mark.torch
def test_what_is_wrong_with_a_scene_is_told_and_the_others_count(school: School) -> None:
    path = school.home.data_folder / "images" / "right.png"
    path.write_bytes(b"no picture at all")
    mask = np.zeros((160, 240), np.uint8)
    mask[0, 0] = 1
    put_scene(school.home.data_folder, "far", mask)
    told, event = school.look()
    assert isinstance(told, inputs.Noticed)
    assert told.problem.about == "scene"
    assert "images/far.png: what the mask shows is too small" in told.problem.text
    assert isinstance(event, inputs.NoveltyChecked)
    assert event.observation.images == 2
    ((_, reason),) = event.unusable
    assert reason.startswith("image: 17 bytes are no picture")


@pytest.mark.torch
def test_names_that_are_gone_end_the_order_in_words(school: School) -> None:
    images = school.images()
    (school.home.data_folder / "classes.toml").unlink()
    school.images = lambda: images  # type: ignore[method-assign]
    (event,) = school.look()
    assert isinstance(event, inputs.TrainingFailed)
    assert "classes.toml: there is no such file" in event.reason


def test_a_scan_tells_scenes_with_their_classes(tmp_path: Path) -> None:
    darkroom = Darkroom(tmp_path)
    assert [image.path for image in darkroom.images()] == [
        "images/large.png",
        "images/right.png",
        "images/wrong.png",
    ]
    assert (darkroom.home.state_folder / "masks.db").exists()
    assert {image.class_name for image in darkroom.images()} == {RED, GREEN}


def test_the_self_test_runs_on_pictures_of_scenes(tmp_path: Path) -> None:
    darkroom = Darkroom(tmp_path)
    darkroom.images()
    model = darkroom.install(dense.exported())
    samples = darkroom.jobs._samples(COLOUR)
    folder = darkroom.home.data_folder
    assert len(samples) == 2
    expected = preprocess((folder / "images" / "large.png").read_bytes(), COLOUR)
    assert np.array_equal(samples[0], expected)
    golden = darkroom.blobs.read(model.manifest.golden.digest)
    self_test(model, golden, darkroom.blobs.read(model.manifest.golden_scores.digest), samples)
