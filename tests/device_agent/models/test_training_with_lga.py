"""LGA's device side among the device jobs: a look, a training, gradients for the proxy."""

from pathlib import Path

import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import TrainingJob
from fleetledger.device_agent.core.requests import Train
from fleetledger.methods.lga.coordinator import COORDINATOR
from fleetledger.methods.lga.gradient_sets import decode_gradients
from fleetledger.methods.lga.recovery import recover_label
from fleetledger.schemas.values import Digest
from tests.device_agent import model_files as models
from tests.device_agent.making import part_key, round_order, training
from tests.device_agent.program.test_device_jobs import Workshop
from tests.methods.lga.making import assignment

pytestmark = pytest.mark.torch


class School(Workshop):
    """A workshop that is asked by the real method."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.told = assignment()
        self.weights = self.blobs.put(COORDINATOR.first_weights(self.told))

    def ask(
        self, number: int, memory: Digest | None, *, observes: bool = False, publishes: bool = True
    ) -> inputs.Input:
        offer = models.offer_of(self.blobs.read(self.weights))
        order = round_order(
            number, "dark", "light", weights=offer, class_stages=(1, 1), observes=observes
        )
        asked = training(order).model_copy(
            update={
                "method": "lga",
                "settings": self.told.model_dump(mode="json"),
                "class_names": models.CLASSES,
                "stage_class_names": models.CLASSES,
            }
        )
        job = TrainingJob(part_key(1, number), "train", "lga", asked.lineage, observes)
        (event,) = self.jobs.answer(Train(job, asked, self.images(), memory, publishes))
        return event


@pytest.fixture
def school(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> School:
    return School(tmp_path)


def test_a_device_looks_first_and_sends_gradients_with_its_next_training(school: School) -> None:
    looked = school.ask(1, None, observes=True)
    assert isinstance(looked, inputs.NoveltyChecked)
    assert (looked.observation.images, looked.observation.transition) == (4, True)
    trained = school.ask(2, looked.memory)
    assert isinstance(trained, inputs.TrainingFinished)
    assert trained.answer.observation is not None
    assert not trained.answer.observation.transition, "it was said with the look"
    made = trained.gradients
    assert made is not None
    data = made.attached or school.blobs.read(made.payload)
    sets = decode_gradients(school.told.encoding, data)
    assert sorted(recover_label(item.gradients["4.weight"].numpy()) for item in sets) == [0, 1]
    again = school.ask(3, trained.memory)
    assert isinstance(again, inputs.TrainingFinished)
    assert again.gradients is None


def test_without_the_owners_leave_the_answer_is_the_same_and_gradients_come_once_they_may(
    school: School,
) -> None:
    given = school.ask(1, None)
    before = school.blobs.digests()
    kept = school.ask(1, None, publishes=False)
    assert isinstance(given, inputs.TrainingFinished)
    assert isinstance(kept, inputs.TrainingFinished)
    assert given.gradients is not None
    assert kept.gradients is None
    assert kept.contribution.payload == given.contribution.payload
    assert school.blobs.digests() - before == {kept.memory}
    allowed = school.ask(2, kept.memory)
    assert isinstance(allowed, inputs.TrainingFinished)
    assert allowed.gradients is not None
