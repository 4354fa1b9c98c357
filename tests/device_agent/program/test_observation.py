"""Device jobs look at pictures with a method's device side, and keep what it remembers."""

import sys
from pathlib import Path

import numpy as np
import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import TrainingJob
from fleetledger.device_agent.core.requests import Train
from fleetledger.device_agent.models.training import read_images
from fleetledger.device_agent.samples.sources.folder import picture_files
from fleetledger.schemas.models import of_pictures
from tests.device_agent import model_files as models
from tests.device_agent.making import GREY_8, part_key, round_order, training
from tests.device_agent.models import watching_method
from tests.device_agent.program.test_device_jobs import Workshop

WEIGHTS = b"the fleet's model"


class Observatory(Workshop):
    """A workshop that is asked only to look."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.blobs.put(WEIGHTS)

    def look(self, images=None, method=watching_method.NAME, memory=None):
        asked = training(
            round_order(3, "dark", "light", weights=models.offer_of(WEIGHTS), observes=True)
        ).model_copy(update={"method": method})
        job = TrainingJob(part_key(1, 3), "train", method, asked.lineage, observes=True)
        chosen = self.images() if images is None else images
        return self.jobs.answer(Train(job, asked, chosen, memory))


@pytest.fixture
def observatory(tmp_path: Path) -> Observatory:
    return Observatory(tmp_path)


@pytest.mark.torch
def test_the_method_looks_at_the_pictures_and_its_memory_is_on_the_disk(
    observatory: Observatory, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = watching_method.install(monkeypatch)
    earlier = observatory.blobs.put(b"rounds 1 2")
    (event,) = observatory.look(memory=earlier)
    assert isinstance(event, inputs.NoveltyChecked)
    assert side.given == [(3, b"rounds 1 2")]
    assert observatory.blobs.read(event.memory) == b"rounds 1 2 3"
    folder = observatory.home.data_folder
    pixels = read_images(
        observatory.images(), picture_files(observatory.images(), folder), of_pictures(GREY_8)
    ).data.inputs
    assert event.observation.entropy == float(np.mean(pixels)) / 255
    assert (event.observation.images, event.observation.transition) == (4, True)


@pytest.mark.torch
def test_pictures_that_do_not_decode_are_named_with_what_was_seen(
    observatory: Observatory, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching_method.install(monkeypatch)
    path = observatory.home.data_folder / observatory.images()[0].path
    path.write_bytes(b"no picture at all")
    (event,) = observatory.look()
    assert isinstance(event, inputs.NoveltyChecked)
    assert event.observation.images == 3
    assert "no picture that can be read" in event.unusable[0][1]


@pytest.mark.torch
def test_without_a_picture_there_is_nothing_to_see(
    observatory: Observatory, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching_method.install(monkeypatch)
    (event,) = observatory.look(images=())
    assert isinstance(event, inputs.NothingToTrain)


def test_without_torch_nobody_looks_and_the_way_out_is_told(
    observatory: Observatory, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching_method.install(monkeypatch)
    monkeypatch.setitem(sys.modules, "fleetledger.learning.networks.pictures", None)
    (event,) = observatory.look()
    assert isinstance(event, inputs.TrainingFailed)
    assert event.hopeless
    assert "torch: not installed" in event.reason


def test_a_method_that_has_nobody_look_refuses_by_name(observatory: Observatory) -> None:
    (event,) = observatory.look(method="rounds")
    assert isinstance(event, inputs.TrainingFailed)
    assert event.hopeless
    assert "round.observes: true, but 'rounds' has no devices look" in event.reason
