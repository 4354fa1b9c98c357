"""A round on a frozen backbone: what the method is given, and what is said of the rest."""

import sys
from pathlib import Path

import numpy as np
import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import TrainingJob
from fleetledger.device_agent.core.requests import Train
from fleetledger.device_agent.home.store.blobs import BlobFolder, file_digest
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.device_agent.models.training import TrainingDone
from fleetledger.device_agent.program.device_jobs import LocalDeviceJobs
from fleetledger.methods.training.exchange import ClientUpdate, LocalData
from fleetledger.schemas.values import ClassName
from fleetledger.transport.meter import Counts
from tests.device_agent import model_files as models
from tests.device_agent.making import part_key, round_order, training
from tests.device_agent.program.test_device_jobs import Workshop
from tests.device_agent.scripted import write_settings

ANSWER = ClientUpdate(
    payload=b"weights",
    samples={ClassName("dark"): 2},
    steps=3,
    loss=0.5,
    memory=b"exemplars",
    stored_samples=4,
)


class Trainee(Workshop):
    """A workshop whose method only looks at what it is given."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder)
        self.given: list[LocalData] = []
        self.weights = self.blobs.put(b"first weights")
        monkeypatch.setattr("fleetledger.device_agent.program.device_jobs.train", self._train)

    def _train(self, request, order, data, memory, settings) -> TrainingDone:
        self.given.append(data)
        return TrainingDone(ANSWER if len(data) else None, 0.1)

    def train(self, images=None) -> tuple[inputs.Input, ...]:
        order = round_order(1, "dark", "light", weights=models.offer_of(b"first weights"))
        backbone = models.offer_of(models.lineage().frozen)
        asked = training(order).model_copy(update={"backbone": backbone})
        job = TrainingJob(part_key(1, 1), "train", "rounds", asked.lineage)
        chosen = self.images() if images is None else images
        return self.jobs.answer(Train(job, asked, chosen, None))

    def start_again(self, settings: str = "") -> None:
        self.home = write_settings(self.home.folder, settings)
        blobs = BlobFolder(self.home.state_folder / "blobs")
        self.jobs = LocalDeviceJobs(
            self.home, blobs, ModelSlots(self.home.state_folder / "slots"), Counts
        )


@pytest.fixture
def trainee(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trainee:
    return Trainee(tmp_path, monkeypatch)


def test_a_method_is_given_features_with_class_and_digest(trainee: Trainee) -> None:
    (event,) = trainee.train()
    assert isinstance(event, inputs.TrainingFinished)
    (data,) = trainee.given
    assert data.inputs.dtype == np.float32
    assert data.inputs.shape == (4, 64)
    assert data.digests == tuple(image.digest for image in trainee.images())
    assert [str(name) for name in data.class_names] == ["dark", "dark", "light", "light"]
    assert data.exemplars_as == "images"


def test_the_owner_says_as_what_exemplars_are_kept(trainee: Trainee) -> None:
    trainee.start_again('[training]\nexemplars = "features"')
    trainee.train()
    assert trainee.given[0].exemplars_as == "features"


def test_the_next_start_computes_nothing_again(
    trainee: Trainee, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = trainee.images()
    trainee.train()
    trainee.start_again()
    for image in images:
        (trainee.home.data_folder / image.path).unlink()
    trainee.train(images)
    first, second = trainee.given
    assert np.array_equal(first.inputs, second.inputs)


def test_pictures_that_do_not_decode_are_named_with_the_answer(trainee: Trainee) -> None:
    path = trainee.home.data_folder / trainee.images()[0].path
    path.write_bytes(b"no picture at all")
    (event,) = trainee.train()
    assert isinstance(event, inputs.TrainingFinished)
    ((name, reason),) = event.unusable
    assert name == file_digest(path)
    assert "no picture that can be read" in reason


def test_without_an_image_the_method_still_decides(trainee: Trainee) -> None:
    (event,) = trainee.train(images=())
    assert isinstance(event, inputs.NothingToTrain)
    assert trainee.given[0].inputs.shape == (0, 64)


def test_a_disk_without_room_for_the_cache_is_told_beside_the_answer(trainee: Trainee) -> None:
    trainee.home.feature_cache.mkdir()
    told, event = trainee.train()
    assert isinstance(told, inputs.Noticed)
    assert told.problem.about == "feature cache"
    assert "training goes on without the cache" in told.problem.text
    assert isinstance(event, inputs.TrainingFinished)


def test_a_damaged_backbone_is_fetched_again(trainee: Trainee) -> None:
    backbone = models.offer_of(models.lineage().frozen).digest
    trainee.blobs.path(backbone).write_bytes(b"damaged")
    damaged, failed = trainee.train()
    assert damaged == inputs.FileDamaged(backbone)
    assert isinstance(failed, inputs.TrainingFailed)
    assert not failed.hopeless


def test_features_need_no_torch(trainee: Trainee) -> None:
    before = "torch" in sys.modules
    trainee.train()
    assert ("torch" in sys.modules) == before
