"""What every method that trains promises where there is a GPU: networks are computed there alone.

On a fake accelerator, which computes as the processor does: answers are equal to the last bit.
"""

from __future__ import annotations

import pytest

from benchmarks.speed.kernel_counts.accelerator import DEVICE, FakeAccelerator
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.methods.training.exchange import ClientUpdate
from tests.methods.fbl import making as fbl
from tests.methods.lga import making as lga
from tests.methods.making import joined, order
from tests.methods.training.test_every_training_device import EVERY, LOOKING, Method

pytestmark = pytest.mark.torch

NETWORKS = {"dcid": "resnet8", "lga": "resnet8", "rounds": "convnet"}
PROCESSOR, ACCELERATOR = TrainingEngineSettings(), TrainingEngineSettings(device=DEVICE)


def learned(name: str, engine: TrainingEngineSettings) -> ClientUpdate:
    """A first local round, wherever the settings say."""
    method: Method = EVERY[name]
    own = {"network": NETWORKS[name]} if name in NETWORKS else {}
    of, asks = method.first_round(**own)
    side = method.local.device
    job = side.begin(of, asks, method.data, None, method.local.pictures, engine)
    trained = train_alone(job.work, engine)
    while job.following is not None:
        job = job.following(trained)
        trained = train_alone(job.work, engine)
    return side.finish(of, job, trained)


@pytest.mark.parametrize("name", EVERY)
def test_a_round_there_gives_the_answer_of_the_processor(name: str) -> None:
    with FakeAccelerator() as fake:
        there = learned(name, ACCELERATOR)
    assert not fake.seen.host_convolutions
    assert fake.seen.kernels
    here = learned(name, PROCESSOR)
    assert (there.payload, there.memory) == (here.payload, here.memory)
    assert there.gradients == here.gradients


@pytest.mark.parametrize("name", LOOKING)
def test_a_look_there_sees_what_the_processor_sees(name: str) -> None:
    making, method = {"fbl": fbl, "lga": lga}[name], LOOKING[name]
    own = {"network": "resnet8"} if name == "lga" else {}
    of = making.assignment(**own)
    question = making.asked(of, *making.EVERY)
    asks = order(question, making.STAGES)
    data = (
        fbl.together(fbl.scenes(6, fbl.ANT), fbl.scenes(6, fbl.CAT, seed=1))
        if name == "fbl"
        else joined(lga.samples(6, lga.ANT), lga.samples(6, lga.CAT, seed=1))
    )
    looked = method.local.device.observe
    with FakeAccelerator() as fake:
        there = looked(of, asks, data, None, method.local.pictures, ACCELERATOR)
    here = looked(of, asks, data, None, method.local.pictures, PROCESSOR)
    assert there == here or vars(there) == vars(here)
    assert not fake.seen.host_convolutions
    assert fake.seen.kernels["convolution"]
